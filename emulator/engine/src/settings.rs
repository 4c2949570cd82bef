//! What one direction does to its frames, in netem's own integers, and its form in JSON.

use crate::frame::{Ns, P32};
use crate::json::{map, Value};

/// The bottleneck: its rate, and its queue in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub bytes_per_s: u64,
    pub buffer_bytes: u64,
    /// What may pass at once after a pause.
    pub burst_bytes: u64,
}

/// Gilbert-Elliott loss, as netem stores it: p (good to bad), r (bad to good), h (kept while bad), k1 (lost while good).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GilbertElliott {
    pub p: u32,
    pub r: u32,
    pub h: u32,
    pub k1: u32,
}

/// One direction. Probabilities are parts of P32.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub delay_ns: Ns,
    pub jitter_ns: Ns,
    /// Whether no frame overtakes another, whatever the jitter.
    pub keep_order: bool,
    pub loss_p32: u32,
    pub duplicate_p32: u32,
    pub corrupt_p32: u32,
    pub reorder_p32: u32,
    /// With reorder: every gap-th frame may go at once. 0: none does.
    pub gap: u32,
    /// Mark what can be marked instead of losing it.
    pub ecn: bool,
    pub gemodel: Option<GilbertElliott>,
    pub rate: Option<Rate>,
    /// How many frames may wait, super-frames counted once.
    pub limit: u64,
    /// How many bytes of memory they may take.
    pub room_bytes: u64,
    pub seed: Option<u64>,
    /// The jitter's shape as netem's table (8192 is one jitter); empty: uniform.
    pub distribution: Vec<i16>,
}

/// The longest delay that is taken: an hour. Beyond, a typing error is likelier than a wish.
pub const MAX_DELAY_NS: Ns = 3_600_000_000_000;

/// The longest table of a distribution (NETEM_DIST_MAX).
pub const MAX_TABLE: usize = 16384;

impl Settings {
    /// Whether packets of one super-frame may fare differently.
    pub fn per_packet(&self) -> bool {
        self.loss_p32 > 0 || self.gemodel.is_some() || self.corrupt_p32 > 0 || self.duplicate_p32 > 0
    }

    /// As `from_json` reads it.
    pub fn to_json(&self) -> Value {
        let mut fields = vec![
            ("delay_ns", Value::from(self.delay_ns)),
            ("jitter_ns", Value::from(self.jitter_ns)),
            ("keep_order", Value::Bool(self.keep_order)),
            ("loss_p32", Value::from(self.loss_p32)),
            ("duplicate_p32", Value::from(self.duplicate_p32)),
            ("corrupt_p32", Value::from(self.corrupt_p32)),
            ("reorder_p32", Value::from(self.reorder_p32)),
            ("gap", Value::from(self.gap)),
            ("ecn", Value::Bool(self.ecn)),
            ("limit", Value::from(self.limit)),
            ("room_bytes", Value::from(self.room_bytes)),
        ];
        if let Some(g) = self.gemodel {
            fields.push(("gemodel", Value::List([g.p, g.r, g.h, g.k1].iter().map(|&v| Value::from(v)).collect())));
        }
        if let Some(r) = self.rate {
            let parts = [r.bytes_per_s, r.buffer_bytes, r.burst_bytes];
            fields.push(("rate", Value::List(parts.iter().map(|&v| Value::from(v)).collect())));
        }
        if let Some(seed) = self.seed {
            fields.push(("seed", Value::from(seed)));
        }
        if !self.distribution.is_empty() {
            let table = self.distribution.iter().map(|&v| Value::Int(i128::from(v))).collect();
            fields.push(("distribution", Value::List(table)));
        }
        map(fields)
    }

    /// Reads every field; an unknown one, a missing one or one out of range is an error with its name.
    pub fn from_json(value: &Value) -> Result<Settings, String> {
        let fields = fields_of(value)?;
        let mut s = Settings::default();
        let mut missing = vec!["delay_ns", "limit", "room_bytes"];
        for (name, v) in fields {
            missing.retain(|m| m != name);
            let wrong = || format!("{name}: {v} is out of range");
            match name.as_str() {
                "delay_ns" => s.delay_ns = v.uint(MAX_DELAY_NS).ok_or_else(wrong)?,
                "jitter_ns" => s.jitter_ns = v.uint(MAX_DELAY_NS).ok_or_else(wrong)?,
                "keep_order" => s.keep_order = v.bool().ok_or_else(wrong)?,
                "loss_p32" => s.loss_p32 = v.u32().ok_or_else(wrong)?,
                "duplicate_p32" => s.duplicate_p32 = v.u32().ok_or_else(wrong)?,
                "corrupt_p32" => s.corrupt_p32 = v.u32().ok_or_else(wrong)?,
                "reorder_p32" => s.reorder_p32 = v.u32().ok_or_else(wrong)?,
                "gap" => s.gap = v.u32().ok_or_else(wrong)?,
                "ecn" => s.ecn = v.bool().ok_or_else(wrong)?,
                "limit" => s.limit = v.uint(1 << 40).ok_or_else(wrong)?,
                "room_bytes" => s.room_bytes = v.uint(1 << 40).ok_or_else(wrong)?,
                "seed" => s.seed = Some(v.uint(u64::MAX).ok_or_else(wrong)?),
                "gemodel" => s.gemodel = Some(gilbert_elliott(v).ok_or_else(wrong)?),
                "rate" => s.rate = Some(rate(v).ok_or_else(wrong)?),
                "distribution" => s.distribution = table(v).ok_or_else(wrong)?,
                _ => return Err(format!("{name}: unknown")),
            }
        }
        match missing.first() {
            Some(name) => Err(format!("{name}: missing")),
            None => Ok(s),
        }
    }
}

fn fields_of(value: &Value) -> Result<&[(String, Value)], String> {
    match value {
        Value::Map(fields) => Ok(fields),
        _ => Err(format!("an object was expected, not {value}")),
    }
}

fn numbers(value: &Value, count: usize, most: u64) -> Option<Vec<u64>> {
    let items = value.list().filter(|items| items.len() == count)?;
    items.iter().map(|v| v.uint(most)).collect()
}

fn gilbert_elliott(value: &Value) -> Option<GilbertElliott> {
    let n = numbers(value, 4, u64::from(P32))?;
    Some(GilbertElliott { p: n[0] as u32, r: n[1] as u32, h: n[2] as u32, k1: n[3] as u32 })
}

fn rate(value: &Value) -> Option<Rate> {
    let n = numbers(value, 3, 1 << 50).filter(|n| n[0] > 0)?;
    Some(Rate { bytes_per_s: n[0], buffer_bytes: n[1], burst_bytes: n[2] })
}

fn table(value: &Value) -> Option<Vec<i16>> {
    let items = value.list().filter(|items| items.len() <= MAX_TABLE)?;
    items.iter().map(|v| v.int().and_then(|n| i16::try_from(n).ok())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn full() -> Settings {
        Settings {
            delay_ns: 173_000_000,
            jitter_ns: 5,
            keep_order: true,
            loss_p32: 42,
            duplicate_p32: 1,
            corrupt_p32: 2,
            reorder_p32: 3,
            gap: 4,
            ecn: true,
            gemodel: Some(GilbertElliott { p: 1, r: 2, h: 3, k1: P32 }),
            rate: Some(Rate { bytes_per_s: 1_250_000_000, buffer_bytes: 1 << 20, burst_bytes: 9 }),
            limit: 1000,
            room_bytes: 1 << 30,
            seed: Some(u64::MAX),
            distribution: vec![-32768, 0, 32767],
        }
    }

    #[test]
    fn json_and_back_is_the_same() {
        for s in [full(), Settings::default()] {
            assert_eq!(Settings::from_json(&parse(&s.to_json().to_string()).unwrap()), Ok(s));
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |text: &str| Settings::from_json(&parse(text).unwrap()).unwrap_err();
        assert_eq!(wrong("[]"), "an object was expected, not []");
        assert_eq!(wrong(r#"{"delay_ns":1,"limit":2}"#), "room_bytes: missing");
        assert_eq!(wrong(r#"{"delay":1}"#), "delay: unknown");
        assert_eq!(wrong(r#"{"delay_ns":-1}"#), "delay_ns: -1 is out of range");
        assert_eq!(wrong(r#"{"loss_p32":4294967296}"#), "loss_p32: 4294967296 is out of range");
        assert_eq!(wrong(r#"{"rate":[0,1,2]}"#), "rate: [0,1,2] is out of range");
    }
}
