//! Every op of every backend in the build against a plain f64 computation of what its documentation says.
//!
//! A case builds a graph of the op, the harness runs it on each backend, and the case file holds the
//! reference. Adding an op means adding a file to `cases`; forgetting it fails a test below.

#![allow(clippy::unwrap_used)]

mod attention_contract;
mod cases;
#[cfg(feature = "gpu")]
mod device_fusions;
#[cfg(feature = "gpu")]
mod device_products;
mod errors;
mod harness;
mod sharing;

use minfer::backends::cpu::CpuBackend;
use minfer::graph::{FusedOp, Fusion, OpKind};

/// Whether nodes of this op are made for devices only.
fn is_for_devices_only(op: OpKind) -> bool {
    matches!(op.fusion(), Fusion::ByBuilder | Fusion::ByPass(FusedOp::MatMulAdd))
}

#[test]
fn every_op_that_is_not_for_devices_only_is_in_the_cpu_table() {
    for op in OpKind::ALL.iter().filter(|op| !is_for_devices_only(**op)) {
        assert!(CpuBackend::ops().any(|known| known == *op), "{op:?} has no row in the CPU's kernel table");
    }
}

#[test]
fn every_op_of_the_cpu_table_has_a_case() {
    for op in CpuBackend::ops() {
        assert!(
            cases::OPS.contains(&op),
            "{op:?} is in the CPU's kernel table and has no case in tests/op_conformance/cases"
        );
    }
}

#[test]
fn every_op_of_a_device_table_has_a_case() {
    for op in harness::device_ops() {
        #[cfg(feature = "gpu")]
        let has_case = cases::OPS.contains(&op) || device_fusions::OPS.contains(&op);
        #[cfg(not(feature = "gpu"))]
        let has_case = cases::OPS.contains(&op);
        assert!(
            has_case,
            "{op:?} is in a device's kernel table and has no case in tests/op_conformance/cases or device_fusions.rs"
        );
    }
}
