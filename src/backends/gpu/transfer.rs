//! From the device to the host.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::device::Gpu;
use crate::graph::BackendError;

/// How long to wait for a callback before asking the device again.
const CALLBACK_WAIT: Duration = Duration::from_millis(5);

/// Copies from `buffer` to `out`, after all work that was handed over. Offset and length are whole words.
pub(super) fn read(
    gpu: &Gpu,
    buffer: &wgpu::Buffer,
    offset: usize,
    out: &mut [u8],
) -> Result<(), BackendError> {
    const WHAT: &str = "reading from the device";
    if out.is_empty() {
        return Ok(());
    }
    let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
    let staging = gpu.create_buffer(out.len(), usage, "a copy for the host")?;
    let mut encoder =
        gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some(WHAT) });
    encoder.copy_buffer_to_buffer(buffer, offset as u64, &staging, 0, out.len() as u64);
    gpu.queue.submit([encoder.finish()]);
    gpu.check(WHAT)?;
    let (sender, mapped) = mpsc::channel();
    staging.map_async(wgpu::MapMode::Read, .., move |result| {
        // The receiver waits below, unless waiting failed first.
        let _ = sender.send(result);
    });
    loop {
        gpu.wait()?;
        // Another thread that waits at the same time may be the one that calls back.
        match mapped.recv_timeout(CALLBACK_WAIT) {
            Ok(Ok(())) => break,
            Ok(Err(error)) => return Err(gpu.driver_error(WHAT, &error)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(error) => return Err(gpu.driver_error(WHAT, &error)),
        }
    }
    let view = staging.get_mapped_range(..).map_err(|error| gpu.driver_error(WHAT, &error))?;
    out.copy_from_slice(&view);
    Ok(())
}
