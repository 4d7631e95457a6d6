//! One file per op. `check` runs the op on every backend in the build.

use minfer::graph::OpKind;

macro_rules! cases {
    ($($module:ident: $op:ident),* $(,)?) => {
        $(pub(crate) mod $module;)*

        /// The ops that have a case.
        pub(crate) const OPS: &[OpKind] = &[$(OpKind::$op),*];

        $(#[test]
        fn $module() {
            $module::check();
        })*
    };
}

cases! {
    input: Input,
    add: Add,
    mul: Mul,
    scale: Scale,
    silu: Silu,
    softmax: Softmax,
    rms_norm: RmsNorm,
    qk_norm: QkNorm,
    mat_mul: MatMul,
    get_rows: GetRows,
    rope: RoPE,
    attn: Attn,
    kvcache_store: KvcacheStore,
    kvcache_load: KvcacheLoad,
    swiglu: SwiGLU,
    view: View,
    reshape: Reshape,
    permute: Permute,
    batch_mat_mul: BatchMatMul,
}
