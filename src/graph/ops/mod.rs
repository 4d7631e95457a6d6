//! The operations: one file per op, one line per op in the list below.
//!
//! A file gives the op's payload, its sources and weights in order, the shape rule and whether the result may
//! take the place of a source.

use std::fmt;

use super::{TensorSpec, WeightRef};
use crate::tensor::{DType, Shape};

mod shape_rules;

pub(crate) use shape_rules::*;

/// A shape rule that a node breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: expected {expected}, got {got}")]
pub struct OpError {
    /// The source, weight or field that is wrong.
    pub what: String,
    /// What the rule asks for.
    pub expected: String,
    /// What was found.
    pub got: String,
}

impl OpError {
    /// A rule that `got` breaks.
    pub(crate) fn new(what: impl Into<String>, expected: impl ToString, got: impl ToString) -> OpError {
        OpError { what: what.into(), expected: expected.to_string(), got: got.to_string() }
    }
}

/// Where the result of an op lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    /// In a pool buffer.
    Buffer,
    /// In the KV regions of a layer.
    Kv(u32),
    /// In the bytes of source `src`, from an element offset on.
    Alias {
        /// Index into the node's sources.
        src: usize,
        /// Offset in elements.
        offset_elems: usize,
    },
}

/// What an op's file says about it.
pub trait OpDef {
    /// The op's name in text, traces and errors.
    fn name(&self) -> &'static str;

    /// Result for these sources and weights, or the rule that they break. Checks the number of both.
    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError>;

    /// The source whose buffer may hold the result, if the node is that source's only consumer.
    fn in_place(&self) -> Option<usize> {
        None
    }

    /// Where the result lies.
    fn storage(&self) -> Storage {
        Storage::Buffer
    }

    /// The KV regions that the node writes besides its result.
    fn kv_store(&self) -> Option<&KvcacheStore> {
        None
    }

    /// Who makes nodes of this op out of simpler ones.
    fn fusion() -> Fusion
    where
        Self: Sized,
    {
        Fusion::None
    }
}

/// How a node of an op comes into a graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fusion {
    /// The op is no fusion.
    None,
    /// The fusion pass makes it; a backend claims it by `supports_fused`.
    ByPass(FusedOp),
    /// The builder makes it when decoding on a device; a backend claims it by `supports_op`.
    ByBuilder,
}

macro_rules! op_list {
    ($($module:ident: $name:ident),* $(,)?) => {
        $(mod $module; pub use $module::*;)*

        /// An operation with its payload; equal payloads mean equal operations.
        #[derive(Clone, PartialEq, Debug)]
        #[allow(missing_docs)]
        pub enum Op { $($name($name)),* }

        /// An operation without its payload: the key of kernel tables and censuses.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[allow(missing_docs)]
        pub enum OpKind { $($name),* }

        impl OpKind {
            /// Every op, in list order.
            pub const ALL: &[OpKind] = &[$(OpKind::$name),*];

            /// Who makes nodes of this op out of simpler ones.
            pub fn fusion(self) -> Fusion {
                match self { $(OpKind::$name => $name::fusion()),* }
            }
        }

        impl Op {
            /// The op without its payload.
            pub fn kind(&self) -> OpKind {
                match self { $(Op::$name(_) => OpKind::$name),* }
            }

            /// The op with its payload, for printing: `RmsNorm { eps: 1e-6 }`.
            pub fn payload(&self) -> &dyn fmt::Debug {
                match self { $(Op::$name(op) => op),* }
            }

            fn def(&self) -> &dyn OpDef {
                match self { $(Op::$name(op) => op),* }
            }
        }

        $(impl From<$name> for Op {
            fn from(op: $name) -> Op {
                Op::$name(op)
            }
        })*
    };
}

op_list! {
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
    fused_qkv: FusedQKV,
    qkv_bias_rope_store: QkvBiasRopeStore,
    fused_qkv_norm: FusedQkvNorm,
    fused_ffn: FusedFFN,
    mat_mul_add: MatMulAdd,
}

impl Op {
    /// The op's name in text, traces and errors.
    pub fn name(&self) -> &'static str {
        self.def().name()
    }

    /// Result for these sources and weights, or the rule that they break.
    pub fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        self.def().infer(srcs, weights)
    }

    /// The source whose buffer may hold the result, if the node is that source's only consumer.
    pub fn in_place(&self) -> Option<usize> {
        self.def().in_place()
    }

    /// Where the result lies.
    pub fn storage(&self) -> Storage {
        self.def().storage()
    }

    /// The KV regions that the node writes besides its result; such a node is never an orphan.
    pub fn kv_store(&self) -> Option<&KvcacheStore> {
        self.def().kv_store()
    }

    /// Who makes nodes of this op out of simpler ones.
    pub fn fusion(&self) -> Fusion {
        self.kind().fusion()
    }
}

/// A result of the fusion pass; a backend claims each one by `supports_fused`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FusedOp {
    /// `Mul(Silu(x), y)`, in either operand order.
    SwiGLU,
    /// `Add(MatMul(x), r)`, in either operand order.
    MatMulAdd,
}
