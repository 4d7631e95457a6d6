//! How many threads are worth starting here.

use std::thread::available_parallelism;

/// The number of threads that arithmetic profits from: physical cores among the processors this process may use, and no more than its
/// share of processor time allows.
pub fn default_threads() -> usize {
    let n_allowed = allowed_threads();
    physical_cores().map_or(n_allowed, |n_cores| n_allowed.min(n_cores)).max(1)
}

/// The number of threads to start where `asked` are asked for: no more than can run at the same time, since every operation waits for
/// all of them; [`default_threads`] if the number is left open.
pub fn threads_for(asked: Option<usize>) -> usize {
    asked.map_or_else(default_threads, |asked| asked.min(allowed_threads()))
}

/// Processors that this process may use, or as many as its share of processor time is worth.
fn allowed_threads() -> usize {
    available_parallelism().map_or(1, |n| n.get())
}

/// Physical cores among the allowed processors, where the system tells.
#[cfg(target_os = "linux")]
fn physical_cores() -> Option<usize> {
    let mut cores: Vec<String> = allowed_processors().into_iter().map(core_of).collect::<Option<_>>()?;
    cores.sort_unstable();
    cores.dedup();
    (!cores.is_empty()).then_some(cores.len())
}

/// Physical cores among the allowed processors, where the system tells.
#[cfg(not(target_os = "linux"))]
fn physical_cores() -> Option<usize> {
    None
}

/// A name for the core that processor `cpu` belongs to: the list of its hardware threads.
#[cfg(target_os = "linux")]
fn core_of(cpu: usize) -> Option<String> {
    std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")).ok()
}

#[cfg(target_os = "linux")]
fn allowed_processors() -> Vec<usize> {
    // SAFETY: cpu_set_t is plain bits, for which all zeros is a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer and the size describe `set`; process 0 means the calling thread.
    let status = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) };
    if status != 0 {
        return Vec::new();
    }
    // SAFETY: the index stays below the number of bits in the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}
