//! KvcacheStore: new keys and values into the layer's regions.

use super::{
    BackendError, Binding, Bound, GRID, HALVES, Launch, Op, PipelineKey, Q8_0 as BLOCKS, Shader, read, write,
};
use crate::graph::KvFormat;
use crate::tensor::DType;

const SOURCE: &str = include_str!("kvcache_store.wgsl");

const BINDINGS: &[Binding] = &[read("x", "f32"), read("cells", "i32"), write("region", "u32")];

const fn shader(name: &'static str, snippets: &'static [&'static str]) -> Shader {
    Shader {
        name,
        source: SOURCE,
        snippets,
        constants: &["ROW_ELEMS: u32"],
        bindings: BINDINGS,
        params: &["n_tokens", "n_cells"],
    }
}

pub(in crate::backends::gpu) static F32: Shader =
    shader("kvcache_store_f32", &[GRID, include_str!("../wgsl/store_f32.wgsl")]);
pub(in crate::backends::gpu) static F16: Shader =
    shader("kvcache_store_f16", &[GRID, HALVES, include_str!("../wgsl/store_f16.wgsl")]);
pub(in crate::backends::gpu) static Q8_0: Shader =
    shader("kvcache_store_q8_0", &[GRID, HALVES, BLOCKS, include_str!("../wgsl/store_q8_0.wgsl")]);

/// Elements that are stored together; rows are multiples of it.
pub(in crate::backends::gpu) fn unit_elems(format: KvFormat) -> usize {
    match format {
        // Two halves share a word.
        KvFormat::F16 => 2,
        KvFormat::F32 | KvFormat::Q8_0 => format.block_elems(),
    }
}

/// The rows of keys and values are whole units of the format.
pub(in crate::backends::gpu) fn accepts(op: &Op, _: DType) -> bool {
    op.kv_store().is_some_and(|store| {
        let unit = unit_elems(store.kv.format);
        store.kv.k_row_elems.is_multiple_of(unit) && store.kv.v_row_elems.is_multiple_of(unit)
    })
}

pub(in crate::backends::gpu) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let op = payload!(launch, KvcacheStore);
    let layer = launch.layer(op.layer, (op.kv.k_row_elems, op.kv.v_row_elems))?;
    let shape = layer.shape;
    let shader = match shape.format {
        KvFormat::F32 => &F32,
        KvFormat::F16 => &F16,
        KvFormat::Q8_0 => &Q8_0,
    };
    let cells = launch.src(2)?;
    for (index, region, row_elems) in
        [(0, &layer.keys, shape.k_row_elems), (1, &layer.values, shape.v_row_elems)]
    {
        let n_tokens = launch.call.srcs[index].shape.n_rows();
        let buffers = [launch.src(index)?, cells, Bound::whole(region)];
        let key = PipelineKey::new(shader, &[row_elems as u32]);
        let n_items = n_tokens * row_elems / unit_elems(shape.format);
        launch.for_each(shader, key, &buffers, &[n_tokens as u32, shape.n_cells as u32], n_items, 64)?;
    }
    Ok(())
}
