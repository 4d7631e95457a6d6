//! Every op of every backend in the build against a plain f64 computation of what its documentation says.
//!
//! A case builds a graph of the op, the harness runs it on each backend, and the case file holds the reference. Adding an op means
//! adding a file to `cases`; forgetting it fails the last test below.

#![allow(clippy::unwrap_used)]

mod attention_contract;
mod cases;
mod errors;
mod harness;
mod sharing;

use minfer::backends::cpu::CpuBackend;

#[test]
fn every_op_of_the_cpu_table_has_a_case() {
    for op in CpuBackend::ops() {
        assert!(
            cases::OPS.contains(&op),
            "{op:?} is in the CPU's kernel table and has no case in tests/op_conformance/cases"
        );
    }
}
