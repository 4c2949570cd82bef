//! What one flow of a direction counted, or all that belongs to none; readable while it works.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde_json::{json, Map, Value};

use crate::frame::Ns;
use crate::histogram::{above, bucket, BUCKETS};

/// A counter that one thread writes and others read.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Only ever called by the one thread that writes.
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed) + n, Relaxed);
    }

    /// Only ever called by the one thread that writes.
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// What it stands at.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Frames and bytes by what became of them; a super-frame counts as one frame.
#[derive(Default)]
pub struct Stats {
    pub received: Counter,
    pub received_bytes: Counter,
    pub sent: Counter,
    pub sent_bytes: Counter,
    pub queued: Counter,
    /// Packets lost by the configured random loss.
    pub lost: Counter,
    /// Packets that met a full buffer.
    pub buffer: Counter,
    /// Packets for which the engine had no room, or which the kernel dropped before us: our fault.
    pub limit: Counter,
    /// Frames that the sending port refused: too long for its MTU, or down.
    pub refused: Counter,
    pub duplicated: Counter,
    pub corrupted: Counter,
    pub marked: Counter,
    /// Super-frames that were split for the sake of one of their packets.
    pub split: Counter,
    late: Lateness,
}

struct Lateness {
    counts: Vec<Counter>,
    most: Counter,
}

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness { counts: (0..BUCKETS).map(|_| Counter::default()).collect(), most: Counter::default() }
    }
}

impl Stats {
    /// A frame was handed to the kernel this long after it was due.
    pub fn late(&self, ns: Ns) {
        self.late.counts[bucket(ns)].add(1);
        self.late.most.set(self.late.most.get().max(ns));
    }

    /// Everything; `lateness_ns` are pairs of a bucket's upper end and its count.
    pub fn to_json(&self) -> Map<String, Value> {
        let counters = [
            ("received", &self.received),
            ("received_bytes", &self.received_bytes),
            ("sent", &self.sent),
            ("sent_bytes", &self.sent_bytes),
            ("queued", &self.queued),
            ("lost", &self.lost),
            ("buffer", &self.buffer),
            ("limit", &self.limit),
            ("refused", &self.refused),
            ("duplicated", &self.duplicated),
            ("corrupted", &self.corrupted),
            ("marked", &self.marked),
            ("split", &self.split),
            ("lateness_max_ns", &self.late.most),
        ];
        let mut fields: Map<_, _> =
            counters.iter().map(|(name, counter)| (name.to_string(), json!(counter.get()))).collect();
        let filled = self.late.counts.iter().enumerate().filter(|(_, counter)| counter.get() > 0);
        let pairs: Vec<_> = filled.map(|(bucket, counter)| json!([above(bucket), counter.get()])).collect();
        fields.insert("lateness_ns".to_string(), json!(pairs));
        fields
    }
}
