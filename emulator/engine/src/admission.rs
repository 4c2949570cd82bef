//! What becomes of a frame as it comes in: whole super-frames pass; one of which some packets fare differently is cut.

use crate::arena::MAX_RECORD;
use crate::direction::Direction;
use crate::gate::Fate;
use crate::packet;
use crate::port::Arrival;

impl Direction {
    /// Lets every packet of a frame meet its fate.
    pub(crate) fn admit(&mut self, arrival: Arrival) {
        let (wire_bytes, packets) = packet::shape(self.arena.bytes(arrival.place, arrival.len));
        if !self.settings.per_packet() {
            self.push(&arrival, wire_bytes, packets);
            return;
        }
        let record = self.arena.bytes(arrival.place, arrival.len);
        let (markable, splits) = (packet::markable(record), packet::splits(record));
        let count = if splits { packets } else { 1 };
        let fates: Vec<Fate> = (0..count).map(|_| self.gate.fate(&self.settings, markable)).collect();
        if count == 1 || fates.iter().all(|f| *f == Fate::default()) {
            self.meet(arrival, wire_bytes, packets, fates[0]);
            return;
        }
        self.shared.stats.split.add(1);
        let mut first = 0;
        while first < fates.len() {
            let plain = fates[first..].iter().take_while(|f| **f == Fate::default()).count();
            let (count, fate) = if plain > 0 { (plain, Fate::default()) } else { (1, fates[first]) };
            self.cut(&arrival, first, count, fate);
            first += count;
        }
        self.arena.release(arrival.place);
    }

    /// Passes some packets of a super-frame on as a frame of their own.
    fn cut(&mut self, whole: &Arrival, first: usize, count: usize, fate: Fate) {
        if fate.lost {
            self.shared.stats.lost.add(1);
            return;
        }
        if let Some(place) = self.arena.reserve() {
            let from = self.arena.bytes(whole.place, whole.len).as_ptr();
            // The reserved place overlaps no record that is alive.
            let record = unsafe { std::slice::from_raw_parts(from, whole.len) };
            if let Some(len) = packet::piece(record, first, count, self.arena.bytes(place, MAX_RECORD)) {
                self.arena.commit(len);
                let (wire_bytes, packets) = packet::shape(self.arena.bytes(place, len));
                self.meet(Arrival { place, len, ..*whole }, wire_bytes, packets, fate);
                return;
            }
        }
        self.shared.stats.limit.add(1);
    }

    /// Lets one frame meet its fate.
    fn meet(&mut self, arrival: Arrival, wire_bytes: u32, packets: u32, fate: Fate) {
        let stats = self.shared.clone();
        let stats = &stats.stats;
        if fate.lost {
            stats.lost.add(1);
            self.arena.release(arrival.place);
            return;
        }
        if fate.marked {
            stats.marked.add(1);
            packet::mark(self.arena.bytes(arrival.place, arrival.len));
        }
        if fate.duplicated {
            stats.duplicated.add(1);
            if let Some(place) = self.arena.reserve() {
                let from = self.arena.pointer(arrival.place);
                let copy = self.arena.bytes(place, arrival.len);
                unsafe { std::ptr::copy_nonoverlapping(from, copy.as_mut_ptr(), arrival.len) };
                self.arena.commit(arrival.len);
                self.push(&Arrival { place, ..arrival }, wire_bytes, packets);
            }
        }
        if fate.corrupted {
            stats.corrupted.add(1);
            let bits = (arrival.len - packet::VNET) as u64 * 8;
            let bit = self.gate.pick(bits) as usize;
            packet::corrupt(self.arena.bytes(arrival.place, arrival.len), bit);
        }
        self.push(&arrival, wire_bytes, packets);
    }
}
