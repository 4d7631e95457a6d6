//! KvcacheStore.

use super::*;

/// Computes the node: writes keys and values to the cells of the tokens.
pub(crate) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let op = payload!(launch, KvcacheStore);
    let (k, v, cells) = (launch.f32_src(0)?, launch.f32_src(1)?, launch.i32_src(2)?);
    let n_cells = op.kv.n_cells;
    if let Some(cell) = cells.iter().find(|cell| usize::try_from(**cell).map_or(true, |cell| cell >= n_cells))
    {
        return Err(launch.broken("cell", format!("0 to {}", n_cells.saturating_sub(1)), cell));
    }
    let rows = launch.device.rows;
    match launch.kv.get_mut(op.layer) {
        Some(layer) if *layer.shape() == op.kv => {
            let (keys, values) = (k.chunks_exact(op.kv.k_row_elems), v.chunks_exact(op.kv.v_row_elems));
            for (cell, (key, value)) in cells.iter().zip(keys.zip(values)) {
                layer.store(rows, *cell as usize, key, value);
            }
            Ok(())
        }
        found => {
            let found = found.map(|layer| *layer.shape());
            Err(launch.broken("KV regions", format!("{:?}", op.kv), format!("{found:?}")))
        }
    }
}
