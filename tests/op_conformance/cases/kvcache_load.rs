use minfer::graph::KvFormat;

use super::attn::{Session, spec};
use crate::harness::targets;

/// Attention reads the regions after the keys and values of its own step are in: a first token attends to itself.
pub(crate) fn check() {
    for target in targets() {
        let spec = spec(2, 1, 16, 16, KvFormat::F32, None);
        let mut session = Session::new(&spec, &target);
        let got = session.step(&[(0, 0, 5)]);
        let value = spec.stored_value(5);
        assert_eq!(got, [&value[..], &value[..]].concat(), "{}", target.name);
    }
}
