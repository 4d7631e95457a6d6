use super::attn::{FORMATS, Session, spec};
use crate::harness::targets;

/// What one step stores, any later step finds, wherever the pages lie: a token that sees only itself gets its
/// own value back.
pub(crate) fn check() {
    for format in FORMATS {
        let (head_dim, head_dim_v) = if format.block_elems() > 1 { (32, 64) } else { (20, 28) };
        for target in targets() {
            let spec = spec(4, 2, head_dim, head_dim_v, format, Some(1));
            let mut session = Session::new(&spec, &target);
            let tokens: Vec<_> =
                (0..70).map(|position| (position % 3, position / 3, position as i32)).collect();
            let got = session.step(&tokens);
            for (token, out) in tokens.iter().zip(got.chunks(4 * head_dim_v)) {
                let value = spec.stored_value(token.2);
                for (head, out) in out.chunks(head_dim_v).enumerate() {
                    assert_eq!(
                        out,
                        &value[head / 2 * head_dim_v..][..head_dim_v],
                        "{}, {format:?}",
                        target.name
                    );
                }
            }
        }
    }
}
