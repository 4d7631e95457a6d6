//! What a graph is a function of.

use crate::tensor::DType;

/// Tokens per KV page.
pub const PAGE_TOKENS: usize = 32;

/// How keys and values are stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KvFormat {
    /// 4 bytes per element.
    F32,
    /// 2 bytes per element.
    F16,
    /// Blocks of 32 elements along a head's row, 34 bytes each: a scale and 32 signed bytes. A block's
    /// largest element takes precision from its neighbours, so models whose keys have large biases lose some
    /// accuracy.
    Q8_0,
}

impl KvFormat {
    /// The element type of the KV regions.
    pub fn dtype(self) -> DType {
        match self {
            KvFormat::F32 => DType::F32,
            KvFormat::F16 => DType::F16,
            KvFormat::Q8_0 => DType::Q8_0,
        }
    }

    /// Elements that are stored together; the length of a head's row is a multiple of it.
    pub fn block_elems(self) -> usize {
        self.dtype().block_elems()
    }

    /// Bytes of `n_elems` elements of one row; `None` if they do not fill whole blocks or the size overflows.
    pub fn row_bytes(self, n_elems: usize) -> Option<usize> {
        self.dtype().bytes_for(n_elems)
    }
}

/// Prompt processing or token-by-token generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GraphType {
    /// Several tokens of one or more sequences.
    Prefill,
    /// One new token per sequence.
    Decode,
}

/// Settings of a context that change topology or assignment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CParams {
    /// Tokens that all sequences together can keep.
    pub n_ctx: usize,
    /// Sequences that can live at once.
    pub n_seq_max: usize,
    /// Attention with an online softmax; the only kind on the CPU.
    pub flash_attn: bool,
    /// True if a device takes part.
    pub gpu: bool,
    /// The builder may emit fused Q/K/V nodes when decoding on a device.
    pub fuse_qkv: bool,
    /// The builder may emit fused gate/up nodes when decoding on a device.
    pub fuse_ffn: bool,
    /// Blocks `0..gpu_layers` run on the device.
    pub gpu_layers: usize,
    /// How keys and values are stored.
    pub kv_format: KvFormat,
    /// The fence: bit `id` is set if backend `id` may be used.
    pub backends: u32,
}

/// Everything that a graph is a function of: equal params mean identical graphs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GraphParams {
    /// Tokens computed in this step.
    pub n_tokens: usize,
    /// Rows that need logits.
    pub n_out: usize,
    /// Prompt processing or generation.
    pub gtype: GraphType,
    /// Context settings.
    pub cparams: CParams,
    /// Counts up whenever the set of weights changes.
    pub weights_version: u64,
}
