//! GetRows: rows picked by index.

use super::*;

/// Picks rows. From a weight: sources `ids` `[n] i32`, weight `table` `[n_embd, n_rows]`; from a value: sources `x`
/// `[n_embd, n_rows] f32`, `ids` `[n] i32`, no weight. The result is `[n_embd, n] f32`, dequantised.
#[derive(Clone, PartialEq, Debug)]
pub struct GetRows;

impl OpDef for GetRows {
    fn name(&self) -> &'static str {
        "GetRows"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        let (row_len, ids) = match weights {
            [] => {
                expect_counts(srcs, 2, weights, 0)?;
                expect_dtype(srcs, 0, DType::F32)?;
                (srcs[0].shape.row_len(), 1)
            }
            _ => {
                expect_counts(srcs, 1, weights, 1)?;
                (weights[0].shape.row_len(), 0)
            }
        };
        expect_dtype(srcs, ids, DType::I32)?;
        let n = srcs[ids].shape.row_len();
        expect_shape(srcs, ids, Shape::d1(n))?;
        Ok(TensorSpec::f32(Shape::d2(row_len, n)))
    }
}
