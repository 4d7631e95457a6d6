//! Ops whose result elements depend on the source elements in the same place.

use super::*;

/// Elements that one call works on: they stay in the first-level cache between copy and arithmetic.
const BLOCK: usize = 1024;

/// `result = f(source 0)`
pub(super) fn unary(
    launch: &mut Launch<'_>,
    ns_per_elem: f32,
    f: impl Fn(&mut [f32]) + Sync,
) -> Result<(), BackendError> {
    let InPlace { out, src } = launch.take_in_place()?;
    for_rows(launch.device, out, BLOCK, ns_per_elem, |block, part| {
        InPlace::load(src, block * BLOCK, part);
        f(part);
    });
    Ok(())
}

/// `result = f(source 0, source 1)`
pub(super) fn binary(
    launch: &mut Launch<'_>,
    ns_per_elem: f32,
    f: fn(&mut [f32], &[f32]),
) -> Result<(), BackendError> {
    // A value combined with itself, in its own place.
    let twice = launch.src_is_result(0) && launch.src_is_result(1);
    let second = if twice { None } else { Some(launch.f32_src(1)?) };
    let InPlace { out, src } = launch.take_in_place()?;
    for_rows(launch.device, out, BLOCK, ns_per_elem, |block, part| {
        let start = block * BLOCK;
        InPlace::load(src, start, part);
        match second {
            Some(second) => f(part, &second[start..start + part.len()]),
            None => {
                let mut copy = [0.0; BLOCK];
                let copy = &mut copy[..part.len()];
                copy.copy_from_slice(part);
                f(part, copy);
            }
        }
    });
    Ok(())
}
