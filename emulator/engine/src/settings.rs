//! What one direction does to its frames, in netem's own integers, and its form in JSON.

use std::sync::Arc;

use serde_json::{json, Value};

use crate::error::Error;
use crate::fields::Fields;
use crate::flow_filter::Filter;
use crate::frame::Ns;

/// The bottleneck: its rate, its queue in bytes, and how its link counts a packet (sch_tbf and psched_l2t_ns).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    pub bytes_per_s: u64,
    pub buffer_bytes: u64,
    /// What may pass at once after a pause.
    pub burst_bytes: u64,
    /// What the link adds to every packet.
    pub overhead_bytes: u64,
    /// Whether packets travel in ATM cells: 53 bytes for 48.
    pub atm: bool,
}

const ATM_PAYLOAD: u64 = 48;
const ATM_CELL: u64 = 53;

impl Rate {
    /// What a packet of so many bytes takes on the link.
    pub fn link_bytes(&self, packet_bytes: u64) -> u64 {
        let bytes = packet_bytes + self.overhead_bytes;
        if self.atm {
            (bytes + ATM_PAYLOAD - 1) / ATM_PAYLOAD * ATM_CELL
        } else {
            bytes
        }
    }

    fn to_json(self) -> Value {
        json!({
            "bytes_per_s": self.bytes_per_s,
            "buffer_bytes": self.buffer_bytes,
            "burst_bytes": self.burst_bytes,
            "overhead_bytes": self.overhead_bytes,
            "atm": self.atm,
        })
    }

    fn from_json(value: &Value, path: &str) -> Result<Rate, Error> {
        let known = ["bytes_per_s", "buffer_bytes", "burst_bytes", "overhead_bytes", "atm"];
        let fields = Fields::of(value, path, &known)?;
        let speed = "a whole number of bytes per second, above 0";
        let in_range = |v: &Value| v.as_u64().filter(|rate| (1..=MOST_BYTES).contains(rate));
        let bytes_per_s = fields.read("bytes_per_s", speed, in_range)?;
        Ok(Rate {
            bytes_per_s: bytes_per_s.ok_or_else(|| Error::Missing(fields.path_of("bytes_per_s")))?,
            buffer_bytes: fields.needed_uint("buffer_bytes", MOST_BYTES)?,
            burst_bytes: fields.needed_uint("burst_bytes", MOST_BYTES)?,
            overhead_bytes: fields.uint("overhead_bytes", 1 << 16)?.unwrap_or(0),
            atm: fields.bool("atm")?,
        })
    }
}

/// Gilbert-Elliott loss, as netem stores it: p (good to bad), r (bad to good), h (kept while bad), k1 (lost while good).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GilbertElliott {
    pub p: u32,
    pub r: u32,
    pub h: u32,
    pub k1: u32,
}

/// Loss by four states, as netem stores it (loss_4state): 1 received in a gap, 2 received in a burst, 3 lost in a burst,
/// 4 lost alone in a gap. `pAB` leads from A to B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FourState {
    pub p13: u32,
    pub p31: u32,
    pub p32: u32,
    pub p23: u32,
    pub p14: u32,
}

/// What happens to the packets of one flow, or to all that belong to none. Probabilities are parts of P32.
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
    pub four_state: Option<FourState>,
    pub rate: Option<Rate>,
    /// How many frames may wait, super-frames counted once.
    pub limit: u64,
    pub seed: Option<u64>,
    /// The jitter's shape as netem's table (8192 is one jitter); empty: uniform.
    pub distribution: Arc<Vec<i16>>,
}

/// The longest accepted delay: a day, as of a topology (emulator/model/impairment.py, LONGEST_DELAY_NS).
pub const MAX_DELAY_NS: Ns = 86_400_000_000_000;

/// The longest table of a distribution (NETEM_DIST_MAX).
pub const MAX_TABLE: usize = 16384;

/// The flows of a direction at most.
pub const MAX_FLOWS: usize = 16;

const MOST_BYTES: u64 = 1 << 50;
const MOST_FRAMES: u64 = 1 << 40;
const MOST_MEMORY: u64 = 1 << 40;

const SETTINGS: [&str; 15] = [
    "delay_ns",
    "jitter_ns",
    "keep_order",
    "loss_p32",
    "duplicate_p32",
    "corrupt_p32",
    "reorder_p32",
    "gap",
    "ecn",
    "gemodel",
    "four_state",
    "rate",
    "limit",
    "seed",
    "distribution",
];

impl Settings {
    /// Whether packets of one super-frame may fare differently.
    pub fn per_packet(&self) -> bool {
        self.loses() || self.corrupt_p32 > 0 || self.duplicate_p32 > 0
    }

    fn loses(&self) -> bool {
        self.loss_p32 > 0 || self.gemodel.is_some() || self.four_state.is_some()
    }

    /// The shortest delay that a frame may have: no table of jitter goes further than four times of it.
    pub fn earliest_ns(&self) -> Ns {
        if self.reorder_p32 > 0 {
            return 0;
        }
        self.delay_ns.saturating_sub(self.jitter_ns.saturating_mul(4))
    }

    /// The longest time that a frame may be in the delay line.
    pub fn line_ns(&self) -> Ns {
        self.delay_ns.saturating_add(self.jitter_ns.saturating_mul(4))
    }

    /// The longest time that a frame may wait, in the delay line and before the bottleneck.
    pub fn latest_ns(&self) -> Ns {
        let queue_ns =
            self.rate.map_or(0, |rate| u128::from(rate.buffer_bytes) * SECOND / u128::from(rate.bytes_per_s));
        self.line_ns().saturating_add(Ns::try_from(queue_ns).unwrap_or(Ns::MAX))
    }

    /// As `from_json` reads it.
    pub fn to_json(&self) -> Value {
        let mut fields = json!({
            "delay_ns": self.delay_ns,
            "jitter_ns": self.jitter_ns,
            "keep_order": self.keep_order,
            "loss_p32": self.loss_p32,
            "duplicate_p32": self.duplicate_p32,
            "corrupt_p32": self.corrupt_p32,
            "reorder_p32": self.reorder_p32,
            "gap": self.gap,
            "ecn": self.ecn,
            "limit": self.limit,
        });
        if let Some(g) = self.gemodel {
            fields["gemodel"] = json!([g.p, g.r, g.h, g.k1]);
        }
        if let Some(s) = self.four_state {
            fields["four_state"] = json!([s.p13, s.p31, s.p32, s.p23, s.p14]);
        }
        if let Some(rate) = self.rate {
            fields["rate"] = rate.to_json();
        }
        if let Some(seed) = self.seed {
            fields["seed"] = json!(seed);
        }
        if !self.distribution.is_empty() {
            fields["distribution"] = json!(&self.distribution[..]);
        }
        fields
    }

    /// Reads every field; an unknown one, a missing one or one out of range is an error with its path.
    pub fn from_json(value: &Value, path: &str) -> Result<Settings, Error> {
        let fields = Fields::of(value, path, &SETTINGS)?;
        let rate = fields.value("rate").map(|rate| Rate::from_json(rate, &fields.path_of("rate"))).transpose()?;
        let gemodel = fields.u32_list::<4>("gemodel")?;
        let four_state = fields.u32_list::<5>("four_state")?;
        Ok(Settings {
            delay_ns: fields.needed_uint("delay_ns", MAX_DELAY_NS)?,
            jitter_ns: fields.uint("jitter_ns", MAX_DELAY_NS)?.unwrap_or(0),
            keep_order: fields.bool("keep_order")?,
            loss_p32: fields.u32("loss_p32")?,
            duplicate_p32: fields.u32("duplicate_p32")?,
            corrupt_p32: fields.u32("corrupt_p32")?,
            reorder_p32: fields.u32("reorder_p32")?,
            gap: fields.u32("gap")?,
            ecn: fields.bool("ecn")?,
            gemodel: gemodel.map(|[p, r, h, k1]| GilbertElliott { p, r, h, k1 }),
            four_state: four_state.map(|[p13, p31, p32, p23, p14]| FourState { p13, p31, p32, p23, p14 }),
            rate,
            limit: fields.needed_uint("limit", MOST_FRAMES)?,
            seed: fields.uint("seed", u64::MAX)?,
            distribution: fields.read("distribution", TABLE, table)?.unwrap_or_default(),
        })
    }
}

const SECOND: u128 = 1_000_000_000;
const TABLE: &str = "a list of at most 16384 whole numbers within -32768..32767";

fn table(value: &Value) -> Option<Arc<Vec<i16>>> {
    let items = value.as_array().filter(|items| items.len() <= MAX_TABLE)?;
    let items = items.iter().map(|item| item.as_i64().and_then(|n| i16::try_from(n).ok()));
    items.collect::<Option<Vec<_>>>().map(Arc::new)
}

/// The packets that any of these filters finds, and what happens to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    pub filters: Vec<Filter>,
    pub settings: Settings,
}

impl Flow {
    fn to_json(&self) -> Value {
        let filters: Vec<Value> = self.filters.iter().map(Filter::to_json).collect();
        json!({ "filters": filters, "settings": self.settings.to_json() })
    }

    fn from_json(value: &Value, path: &str) -> Result<Flow, Error> {
        let fields = Fields::of(value, path, &["filters", "settings"])?;
        let filters = fields.list("filters")?;
        Ok(Flow {
            filters: filters.iter().map(|(path, filter)| Filter::from_json(filter, path)).collect::<Result<_, _>>()?,
            settings: Settings::from_json(fields.needed("settings")?, &fields.path_of("settings"))?,
        })
    }
}

/// One direction: what happens to every flow's packets and to all others, and the memory that they wait in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectionSettings {
    /// How many bytes of memory all frames may take.
    pub memory_bytes: u64,
    /// For what belongs to no flow.
    pub settings: Settings,
    /// In the order in which they are tried.
    pub flows: Vec<Flow>,
}

impl DirectionSettings {
    /// What belongs to no flow first, then the flows.
    pub fn all(&self) -> impl Iterator<Item = &Settings> {
        std::iter::once(&self.settings).chain(self.flows.iter().map(|flow| &flow.settings))
    }

    /// The shortest of the delays.
    pub fn shortest_delay_ns(&self) -> Ns {
        self.all().map(|settings| settings.delay_ns).min().unwrap_or(0)
    }

    /// As `from_json` reads it.
    pub fn to_json(&self) -> Value {
        let flows: Vec<Value> = self.flows.iter().map(Flow::to_json).collect();
        json!({ "memory_bytes": self.memory_bytes, "settings": self.settings.to_json(), "flows": flows })
    }

    /// Reads a direction. Errors name the field by its path.
    pub fn from_json(value: &Value, path: &str) -> Result<DirectionSettings, Error> {
        let fields = Fields::of(value, path, &["memory_bytes", "settings", "flows"])?;
        let flows = fields.list("flows")?;
        if flows.len() > MAX_FLOWS {
            let expected = format!("at most {MAX_FLOWS}");
            return Err(Error::Invalid { path: fields.path_of("flows"), found: flows.len().to_string(), expected });
        }
        Ok(DirectionSettings {
            memory_bytes: fields.needed_uint("memory_bytes", MOST_MEMORY)?,
            settings: Settings::from_json(fields.needed("settings")?, &fields.path_of("settings"))?,
            flows: flows.iter().map(|(path, flow)| Flow::from_json(flow, path)).collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::P32;

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
            four_state: Some(FourState { p13: 1, p31: 2, p32: 3, p23: 4, p14: P32 }),
            rate: Some(Rate {
                bytes_per_s: 1_250_000_000,
                buffer_bytes: 1 << 20,
                burst_bytes: 9,
                overhead_bytes: 22,
                atm: true,
            }),
            limit: 1000,
            seed: Some(u64::MAX),
            distribution: vec![-32768, 0, 32767].into(),
        }
    }

    fn read(text: &str) -> Result<DirectionSettings, Error> {
        DirectionSettings::from_json(&serde_json::from_str(text).unwrap(), "outbound")
    }

    #[test]
    fn json_and_back_is_the_same() {
        let filter = Filter { vlan: Some(7), ..Filter::default() };
        let flow = Flow { filters: vec![filter], settings: full() };
        let direction = DirectionSettings { memory_bytes: 1 << 30, settings: full(), flows: vec![flow] };
        assert_eq!(read(&direction.to_json().to_string()).unwrap(), direction);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |text: &str| Settings::from_json(&serde_json::from_str(text).unwrap(), "").unwrap_err().to_string();
        assert_eq!(wrong("[]"), "an object was expected, not []");
        assert_eq!(wrong(r#"{"delay_ns":1}"#), "limit: missing");
        assert_eq!(wrong(r#"{"delay":1}"#), "delay: unknown");
        assert_eq!(wrong(r#"{"delay_ns":-1}"#), "delay_ns: -1 is not a whole number within 0..86400000000000");
        assert_eq!(wrong(r#"{"delay_ns":"1ms"}"#), "delay_ns: \"1ms\" is not a whole number within 0..86400000000000");
        let rate = r#"{"delay_ns":1,"limit":1,"rate":{"bytes_per_s":0}}"#;
        assert_eq!(wrong(rate), "rate.bytes_per_s: 0 is not a whole number of bytes per second, above 0");
        let model = r#"{"gemodel":[1,2,3]}"#;
        assert_eq!(wrong(model), "gemodel: [1,2,3] is not a list of 4 whole numbers within 0..4294967295");
        let table = format!(r#"{{"delay_ns":1,"limit":1,"distribution":[{}40000]}}"#, "1,".repeat(100));
        assert!(wrong(&table).ends_with(&format!("... is not {TABLE}")));
    }

    #[test]
    fn what_is_wrong_with_a_flow_is_named_by_its_path() {
        let wrong = |flow: &str| {
            let text = format!(r#"{{"memory_bytes":1,"settings":{{"delay_ns":1,"limit":1}},"flows":[{flow}]}}"#);
            read(&text).unwrap_err().to_string()
        };
        assert_eq!(wrong("{}"), "outbound.flows[0].settings: missing");
        assert_eq!(
            wrong(r#"{"filters":[{"vlan":9999}]}"#),
            "outbound.flows[0].filters[0].vlan: 9999 is not a whole number within 0..4095"
        );
        assert_eq!(wrong(r#"{"filters":3}"#), "outbound.flows[0].filters: 3 is not a list");
        assert_eq!(wrong(&vec!["{}"; 17].join(",")), "outbound.flows: 17 is not at most 16");
    }

    #[test]
    fn a_link_counts_headers_and_cells_as_the_kernel_does() {
        let plain = Rate { overhead_bytes: 22, ..Rate::default() };
        assert_eq!(plain.link_bytes(1514), 1536);
        let atm = Rate { atm: true, ..plain };
        assert_eq!((atm.link_bytes(1514), atm.link_bytes(26), atm.link_bytes(27)), (32 * 53, 53, 106));
    }
}
