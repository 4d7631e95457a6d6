//! Ctrl-C: the first one asks the work to end, and work that does not listen is ended soon after.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::error::INTERRUPTED;

/// How long the work has to end by itself.
const GRACE: Duration = Duration::from_millis(900);

/// Set by Ctrl-C and by SIGTERM.
#[derive(Clone, Default)]
pub(super) struct Interrupt {
    flag: Arc<AtomicBool>,
}

impl Interrupt {
    /// Listens to the signals from now on. Where that is impossible, they just end the process as always.
    pub(super) fn listen() -> Interrupt {
        let interrupt = Interrupt::default();
        let flag = Arc::clone(&interrupt.flag);
        let _ = ctrlc::set_handler(move || {
            if flag.swap(true, Ordering::Relaxed) {
                exit();
            }
            std::thread::spawn(|| {
                std::thread::sleep(GRACE);
                exit();
            });
        });
        interrupt
    }

    /// The flag that work looks at.
    pub(super) fn flag(&self) -> &AtomicBool {
        &self.flag
    }
}

/// Files in progress are consistent at any moment, so nothing needs tidying up.
fn exit() -> ! {
    std::process::exit(i32::from(INTERRUPTED))
}
