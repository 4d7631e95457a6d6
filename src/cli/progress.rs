//! Download progress on a terminal; plain lines elsewhere.

use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::output::{note, size, stderr_is_terminal};
use crate::config::Config;
use crate::store::Progress;

/// Progress on standard error.
pub(super) struct Bars {
    interactive: bool,
    bar: Mutex<Option<ProgressBar>>,
}

impl Bars {
    pub(super) fn new(config: &Config) -> Bars {
        Bars { interactive: stderr_is_terminal() && !config.no_color, bar: Mutex::new(None) }
    }

    fn with_bar(&self, act: impl FnOnce(&ProgressBar)) {
        if let Ok(bar) = self.bar.lock() {
            bar.as_ref().inspect(|bar| act(bar));
        }
    }
}

impl Progress for Bars {
    fn note(&self, line: &str) {
        match self.bar.lock().as_deref() {
            Ok(Some(bar)) => bar.suspend(|| note(line)),
            _ => note(line),
        }
    }

    fn begin(&self, name: &str, done: u64, total: Option<u64>) {
        if !self.interactive {
            let of = total.map(|total| format!(" ({})", size(total))).unwrap_or_default();
            return note(&format!("downloading {name}{of}"));
        }
        let target = ProgressDrawTarget::stderr_with_hz(8);
        let bar = ProgressBar::with_draw_target(total, target).with_position(done);
        let template = match total {
            Some(_) => "{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
            None => "{msg} {bytes} {bytes_per_sec}",
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar.set_message(name.to_string());
        if let Ok(mut slot) = self.bar.lock() {
            *slot = Some(bar);
        }
    }

    fn at(&self, bytes: u64) {
        self.with_bar(|bar| bar.set_position(bytes));
    }

    fn end(&self) {
        if let Ok(mut slot) = self.bar.lock()
            && let Some(bar) = slot.take()
        {
            bar.finish_and_clear();
        }
    }
}
