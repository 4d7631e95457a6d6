//! The kernel table: what this backend computes, and under which conditions. `supports_op` looks it up here.

use super::launch::Launch;
use super::ops;
use crate::graph::{BackendError, Op, OpKind};
use crate::tensor::DType;

/// One row: an op, the condition on payload and result type, and the launcher.
pub(super) struct Kernel {
    op: OpKind,
    accepts: fn(&Op, DType) -> bool,
    /// Records the node.
    pub(super) launch: fn(&mut Launch<'_>) -> Result<(), BackendError>,
}

const fn row(
    op: OpKind,
    accepts: fn(&Op, DType) -> bool,
    launch: fn(&mut Launch<'_>) -> Result<(), BackendError>,
) -> Kernel {
    Kernel { op, accepts, launch }
}

/// A row for an op whose result is there already.
const fn nothing_to_do(op: OpKind) -> Kernel {
    row(op, |_, _| true, |_| Ok(()))
}

static TABLE: &[Kernel] = &[
    nothing_to_do(OpKind::Input),
    row(OpKind::Add, f32_result, ops::elementwise::add),
    row(OpKind::Mul, f32_result, ops::elementwise::mul),
    row(OpKind::Scale, f32_result, ops::elementwise::scale),
    row(OpKind::Silu, f32_result, ops::elementwise::silu),
    row(OpKind::Softmax, f32_result, ops::softmax::launch),
    row(OpKind::RmsNorm, f32_result, ops::rms_norm::launch),
    row(OpKind::QkNorm, f32_result, ops::rms_norm::launch_heads),
    row(OpKind::MatMul, f32_result, ops::mat_mul::launch),
    row(OpKind::MatMulAdd, f32_result, ops::mat_mul_add::launch),
    row(OpKind::GetRows, f32_result, ops::get_rows::launch),
    row(OpKind::RoPE, f32_result, ops::rope::launch),
    row(OpKind::Attn, ops::attn::accepts, ops::attn::launch),
    row(OpKind::KvcacheStore, ops::kvcache_store::accepts, ops::kvcache_store::launch),
    nothing_to_do(OpKind::KvcacheLoad),
    row(OpKind::SwiGLU, f32_result, ops::elementwise::swiglu),
    nothing_to_do(OpKind::View),
    nothing_to_do(OpKind::Reshape),
    row(OpKind::Permute, f32_result, ops::permute::launch),
    row(OpKind::BatchMatMul, f32_result, ops::batch_mat_mul::launch),
    row(OpKind::FusedQKV, f32_result, ops::fused_qkv::launch),
    row(OpKind::QkvBiasRopeStore, ops::epilogue::accepts, ops::epilogue::launch),
    row(OpKind::FusedQkvNorm, ops::epilogue::accepts, ops::epilogue::launch),
    row(OpKind::FusedFFN, f32_result, ops::fused_ffn::launch),
];

fn f32_result(_: &Op, dtype: DType) -> bool {
    dtype == DType::F32
}

/// The row for an op with this payload and result type.
pub(super) fn find(op: &Op, dtype: DType) -> Option<&'static Kernel> {
    let kind = op.kind();
    TABLE.iter().find(|kernel| kernel.op == kind && (kernel.accepts)(op, dtype))
}

/// The ops that have a row.
pub(super) fn kinds() -> impl Iterator<Item = OpKind> {
    TABLE.iter().map(|kernel| kernel.op)
}
