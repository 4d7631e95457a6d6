//! `minfer bench --roofline`: results beside what the machine can do at most.

use serde_json::{Value, json};

use super::error::CliError;
use crate::engine::{Cost, Engine, Limits};

pub(super) const MD_HEAD: &str = " weights+KV read GB/s | int8 GMAC/s |";
pub(super) const MD_RULE: &str = " ---: | ---: |";
pub(super) const CSV_HEAD: &str = ",read_bytes_per_token,macs_per_token,read_share,int8_share,\
    read_bytes_per_second_max,int8_macs_per_second_max";

/// Measures the machine's limits, which a device has no part in.
pub(super) fn measure(engine: &Engine) -> Result<Limits, CliError> {
    let placement = engine.placement();
    if placement.device.is_some() {
        return Err(CliError::usage(
            "--roofline",
            "a model on the CPU alone (--backend cpu)",
            placement.to_string(),
        ));
    }
    let no_room = || CliError::usage("--roofline", "memory for a buffer beyond the caches", "too little");
    engine.measure_limits().ok_or_else(no_room)
}

/// The limits as a line below a table.
pub(super) fn describe(limits: &Limits, engine: &Engine) -> String {
    format!(
        "limits of this machine with {} threads: reads {:.2} GB/s, multiplies and adds {:.2} G int8/s ({})",
        engine.n_threads(),
        limits.read_bytes_per_second / 1e9,
        limits.int8_macs_per_second / 1e9,
        engine.isa().name(),
    )
}

/// One result beside the limits.
pub(super) struct Roofline {
    limits: Limits,
    read_bytes_per_token: f64,
    macs_per_token: f64,
    tokens_per_second: f64,
}

impl Roofline {
    /// `cost` is that of `n_tokens` tokens.
    pub(super) fn new(limits: Limits, cost: Cost, n_tokens: usize, tokens_per_second: f64) -> Roofline {
        Roofline {
            limits,
            read_bytes_per_token: (cost.weights_bytes + cost.kv_bytes) as f64 / n_tokens as f64,
            macs_per_token: cost.macs as f64 / n_tokens as f64,
            tokens_per_second,
        }
    }

    fn read_bytes_per_second(&self) -> f64 {
        self.read_bytes_per_token * self.tokens_per_second
    }

    fn macs_per_second(&self) -> f64 {
        self.macs_per_token * self.tokens_per_second
    }

    /// Shares of the limits, 1 being all.
    fn shares(&self) -> [f64; 2] {
        [
            self.read_bytes_per_second() / self.limits.read_bytes_per_second,
            self.macs_per_second() / self.limits.int8_macs_per_second,
        ]
    }

    pub(super) fn md(&self) -> String {
        let [read, int8] = self.shares().map(|share| 100.0 * share);
        let (bytes, macs) = (self.read_bytes_per_second() / 1e9, self.macs_per_second() / 1e9);
        format!(" {bytes:.2} ({read:.0} %) | {macs:.2} ({int8:.0} %) |")
    }

    pub(super) fn csv(&self) -> String {
        let [read, int8] = self.shares();
        format!(
            ",{:.0},{:.0},{read:.4},{int8:.4},{:.0},{:.0}",
            self.read_bytes_per_token,
            self.macs_per_token,
            self.limits.read_bytes_per_second,
            self.limits.int8_macs_per_second,
        )
    }

    pub(super) fn json(&self) -> Value {
        let [read, int8] = self.shares();
        json!({
            "read_bytes_per_token": self.read_bytes_per_token,
            "macs_per_token": self.macs_per_token,
            "read_share": read,
            "int8_share": int8,
            "read_bytes_per_second_max": self.limits.read_bytes_per_second,
            "int8_macs_per_second_max": self.limits.int8_macs_per_second,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_what_was_done_per_second_of_what_can_be() {
        let limits = Limits { read_bytes_per_second: 20e9, int8_macs_per_second: 100e9 };
        let cost = Cost { weights_bytes: 900_000_000, kv_bytes: 100_000_000, macs: 5_000_000_000 };
        let roofline = Roofline::new(limits, cost, 10, 100.0);
        assert_eq!(roofline.shares(), [0.5, 0.5]);
        assert_eq!(roofline.md(), " 10.00 (50 %) | 50.00 (50 %) |");
        assert_eq!(roofline.csv(), ",100000000,500000000,0.5000,0.5000,20000000000,100000000000");
        assert_eq!(roofline.csv().matches(',').count(), CSV_HEAD.matches(',').count());
        assert_eq!(roofline.md().matches('|').count(), MD_HEAD.matches('|').count());
        assert_eq!(roofline.md().matches('|').count(), MD_RULE.matches('|').count());
    }
}
