use minfer::graph::KvFormat;

use super::attn::{Session, spec};
use crate::harness::targets;

/// What one step stores, any later step finds, wherever the pages lie: a token that sees only itself gets its own
/// value back.
pub(crate) fn check() {
    for format in [KvFormat::F16, KvFormat::F32] {
        for target in targets() {
            let spec = spec(4, 2, 20, 28, format, Some(1));
            let mut session = Session::new(&spec, &target);
            let tokens: Vec<_> = (0..70).map(|position| (position % 3, position / 3, position as i32)).collect();
            let got = session.step(&tokens);
            for (token, out) in tokens.iter().zip(got.chunks(4 * 28)) {
                let value = spec.stored_value(token.2);
                for (head, out) in out.chunks(28).enumerate() {
                    assert_eq!(out, &value[head / 2 * 28..][..28], "{}, {format:?}", target.name);
                }
            }
        }
    }
}
