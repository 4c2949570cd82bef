//! What becomes of a frame as it comes in: whole super-frames pass; one of which some packets fare differently is cut.

use crate::direction::Direction;
use crate::frame::MAX_RECORD;
use crate::packet::{self, Shape};
use crate::packet_fate::Fate;
use crate::port::Arrival;

impl Direction {
    /// Lets every packet of a frame meet its fate in the band that it belongs to.
    pub(crate) fn admit(&mut self, arrival: Arrival) {
        let record = self.arena.bytes(arrival.place, arrival.len);
        let slot = self.bands.classify(&record[packet::VNET..]);
        let shape = packet::shape(record);
        let band = self.bands.at(slot);
        band.stats.received.add(1);
        band.stats.received_bytes.add((arrival.len - packet::VNET) as u64);
        if !band.settings.per_packet() {
            self.push(slot, &arrival, shape);
            return;
        }
        let (markable, splits) = (packet::markable(record), packet::splits(record));
        let count = if splits { shape.packets } else { 1 };
        let fates: Vec<Fate> = (0..count).map(|_| band.fates.fate(&band.settings, markable)).collect();
        if count == 1 || fates.iter().all(|f| *f == Fate::default()) {
            self.meet(slot, arrival, shape, fates[0]);
            return;
        }
        band.stats.split.add(1);
        self.cut_apart(slot, &arrival, &fates);
        self.arena.release(arrival.place);
    }

    /// Passes the packets of a super-frame on in pieces, as few as their fates allow.
    fn cut_apart(&mut self, slot: usize, whole: &Arrival, fates: &[Fate]) {
        let mut first = 0;
        while first < fates.len() {
            let plain = fates[first..].iter().take_while(|f| **f == Fate::default()).count();
            let (count, fate) = if plain > 0 { (plain, Fate::default()) } else { (1, fates[first]) };
            self.cut(slot, whole, first, count, fate);
            first += count;
        }
    }

    /// Passes some packets of a super-frame on as a frame of their own.
    fn cut(&mut self, slot: usize, whole: &Arrival, first: usize, count: usize, fate: Fate) {
        if fate.lost {
            self.bands.at(slot).stats.lost.add(1);
            return;
        }
        if let Some(place) = self.arena.reserve() {
            let from = self.arena.bytes(whole.place, whole.len).as_ptr();
            // SAFETY: the record is alive until the whole of it was cut; the reserved place overlaps no record.
            let record = unsafe { std::slice::from_raw_parts(from, whole.len) };
            if let Some(len) = packet::piece(record, first, count, self.arena.bytes(place, MAX_RECORD)) {
                self.arena.commit(len);
                let shape = packet::shape(self.arena.bytes(place, len));
                self.meet(slot, Arrival { place, len, ..*whole }, shape, fate);
                return;
            }
        }
        self.bands.at(slot).stats.limit.add(1);
    }

    /// Lets one frame meet its fate.
    fn meet(&mut self, slot: usize, arrival: Arrival, shape: Shape, fate: Fate) {
        let stats = self.bands.at(slot).stats.clone();
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
            self.duplicate(slot, &arrival, shape);
        }
        if fate.corrupted {
            stats.corrupted.add(1);
            let bits = (arrival.len - packet::VNET) as u64 * 8;
            let bit = self.bands.at(slot).fates.pick(bits) as usize;
            packet::corrupt(self.arena.bytes(arrival.place, arrival.len), bit);
        }
        self.push(slot, &arrival, shape);
    }

    /// Lets a copy of a frame meet a fate of its own, if there is room for it.
    fn duplicate(&mut self, slot: usize, arrival: &Arrival, shape: Shape) {
        if let Some(place) = self.arena.reserve() {
            let from = self.arena.pointer(arrival.place);
            let copy = self.arena.bytes(place, arrival.len);
            // SAFETY: both are as long as the record, and the reserved place overlaps no record.
            unsafe { std::ptr::copy_nonoverlapping(from, copy.as_mut_ptr(), arrival.len) };
            let markable = packet::markable(copy);
            self.arena.commit(arrival.len);
            let band = self.bands.at(slot);
            let fate = band.fates.fate_of_duplicate(&band.settings, markable);
            self.meet(slot, Arrival { place, ..*arrival }, shape, fate);
        }
    }
}
