//! The bands of a direction: one for each flow, and the first for what belongs to none. Each has an own delay line,
//! bottleneck, dice and counters, as each band of the kernel's prio has a netem of its own.

use std::sync::Arc;

use crate::flow_filter::{Filter, Keys};
use crate::frame::{Dropped, Frame, Impairment, Ns};
use crate::packet_fate::PacketFates;
use crate::pipeline::Pipeline;
use crate::settings::{DirectionSettings, Settings};
use crate::stats::Stats;

/// Makes the delay line's dice others than those of the fates.
const OTHER_DICE: u64 = 0x6A09_E667_F3BC_C908;

/// What happens to the packets of one flow.
pub struct Band {
    filters: Vec<Filter>,
    pub settings: Settings,
    pub fates: PacketFates,
    pub pipeline: Pipeline,
    pub stats: Arc<Stats>,
}

impl Band {
    fn new(filters: &[Filter], settings: &Settings, stats: &Arc<Stats>, seed: u64) -> Band {
        let seed = settings.seed.unwrap_or(seed);
        Band {
            filters: filters.to_vec(),
            settings: settings.clone(),
            fates: PacketFates::new(seed),
            pipeline: Pipeline::new(settings, seed ^ OTHER_DICE),
            stats: stats.clone(),
        }
    }

    fn set(&mut self, settings: &Settings, seed: u64, now: Ns) {
        self.pipeline.set(settings, now);
        if settings.seed != self.settings.seed {
            self.fates = PacketFates::new(settings.seed.unwrap_or(seed));
        }
        self.settings = settings.clone();
    }

    fn finds(&self, keys: &Keys) -> bool {
        self.filters.iter().any(|filter| filter.finds(keys))
    }
}

/// All bands of a direction. A band is known by its slot, for as long as a frame of it is inside.
pub struct Bands {
    slots: Vec<Option<Band>>,
    /// The slots of those that take frames: what belongs to no flow, then the flows as they are tried.
    order: Vec<usize>,
}

impl Bands {
    /// `stats` are what each of the bands counts with, in the order of `settings.all()`; `seed` is for those that have
    /// none.
    pub fn new(settings: &DirectionSettings, stats: &[Arc<Stats>], seed: u64) -> Bands {
        let mut bands = Bands { slots: Vec::new(), order: Vec::new() };
        bands.set(settings, stats, seed, 0);
        bands
    }

    /// From `now` on so. A band whose counters are among `stats` goes on with them; one whose are not takes no more frames,
    /// and goes when the last of it has left.
    pub fn set(&mut self, settings: &DirectionSettings, stats: &[Arc<Stats>], seed: u64, now: Ns) {
        let filters = std::iter::once(&[][..]).chain(settings.flows.iter().map(|flow| &flow.filters[..]));
        self.order.clear();
        for ((filters, settings), stats) in filters.zip(settings.all()).zip(stats) {
            let known = |slot: &Option<Band>| slot.as_ref().map_or(false, |band| Arc::ptr_eq(&band.stats, stats));
            let slot = match self.slots.iter().position(known) {
                Some(slot) => {
                    self.at(slot).set(settings, seed, now);
                    slot
                }
                None => self.add(Band::new(filters, settings, stats, seed)),
            };
            self.order.push(slot);
        }
    }

    fn add(&mut self, band: Band) -> usize {
        let free = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        if free == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[free] = Some(band);
        free
    }

    /// Forgets the bands that take no more frames and have none; only while no frame of any is elsewhere. Their slots.
    pub fn forget_left(&mut self) -> Vec<usize> {
        let mut left = Vec::new();
        for (slot, band) in self.slots.iter_mut().enumerate() {
            if !self.order.contains(&slot) && band.as_ref().map_or(false, |band| band.pipeline.done()) {
                *band = None;
                left.push(slot);
            }
        }
        left
    }

    /// Whether frames of several bands wait in the same memory.
    pub fn are_several(&self) -> bool {
        self.slots.iter().flatten().count() > 1
    }

    /// The slot of the band that a frame belongs to.
    pub fn classify(&self, frame: &[u8]) -> usize {
        let (rest, flows) = self.order.split_first().expect("there is a band for what belongs to no flow");
        if flows.is_empty() {
            return *rest;
        }
        let keys = Keys::of(frame);
        let finds = |slot: &&usize| self.slots[**slot].as_ref().map_or(false, |band| band.finds(&keys));
        *flows.iter().find(finds).unwrap_or(rest)
    }

    /// The band in a slot.
    pub fn at(&mut self, slot: usize) -> &mut Band {
        self.slots[slot].as_mut().expect("a slot has a band while frames of it are inside")
    }

    /// What belongs to no flow counts with these.
    pub fn rest_stats(&mut self) -> &Stats {
        let rest = self.order[0];
        &self.at(rest).stats
    }

    /// Every band that there is, and its slot.
    pub fn all(&mut self) -> impl Iterator<Item = (usize, &mut Band)> {
        self.slots.iter_mut().enumerate().filter_map(|(slot, band)| Some((slot, band.as_mut()?)))
    }

    fn first_due(&self) -> Option<(Ns, usize)> {
        let due = |(slot, band): (usize, &Option<Band>)| Some((band.as_ref()?.pipeline.next_due()?, slot));
        self.slots.iter().enumerate().filter_map(due).min()
    }

    /// When the next frame leaves; None when there is none.
    pub fn next_due(&self) -> Option<Ns> {
        self.first_due().map(|(due, _)| due)
    }

    /// The next frame that is due, of whichever band, and its slot.
    pub fn pop_due(&mut self, now: Ns) -> Option<(usize, Frame)> {
        loop {
            let (_, slot) = self.first_due().filter(|(due, _)| *due <= now)?;
            // None where what was due met a full buffer.
            if let Some(frame) = self.at(slot).pipeline.pop_due(now) {
                return Some((slot, frame));
            }
        }
    }

    /// The frames that met a full buffer since the last call, and their slots.
    pub fn take_dropped(&mut self) -> Vec<(usize, Dropped)> {
        let taken = self.all().map(|(slot, band)| (slot, band.pipeline.take_dropped()));
        taken.flat_map(|(slot, dropped)| dropped.into_iter().map(move |one| (slot, one))).collect()
    }

    /// Whether all that ever came in has left again.
    pub fn done(&self) -> bool {
        self.slots.iter().flatten().all(|band| band.pipeline.done())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Flow;

    fn settings(delay_ns: Ns) -> Settings {
        Settings { delay_ns, limit: 100, keep_order: true, ..Settings::default() }
    }

    fn flow(vlan: u16, delay_ns: Ns) -> Flow {
        let filter = Filter { vlan: Some(vlan), ..Filter::default() };
        Flow { filters: vec![filter], settings: settings(delay_ns) }
    }

    fn direction(flows: Vec<Flow>) -> DirectionSettings {
        DirectionSettings { memory_bytes: 0, settings: settings(1000), flows }
    }

    fn counters(count: usize) -> Vec<Arc<Stats>> {
        (0..count).map(|_| Arc::default()).collect()
    }

    /// A frame with this VLAN tag; 0: with none.
    fn tagged(vlan: u16) -> Vec<u8> {
        match vlan {
            0 => vec![0; 60],
            vlan => [&[0; 12][..], &[0x81, 0], &vlan.to_be_bytes(), &[0; 44]].concat(),
        }
    }

    fn push(bands: &mut Bands, vlan: u16, now: Ns) -> usize {
        let frame =
            Frame { place: u64::from(vlan), record_bytes: 60, wire_bytes: 60, packets: 1, packet_bytes: 60, due: 0 };
        let slot = bands.classify(&tagged(vlan));
        bands.at(slot).pipeline.push(frame, now).unwrap();
        slot
    }

    fn drain(bands: &mut Bands) -> Vec<(u64, Ns)> {
        std::iter::from_fn(|| bands.pop_due(Ns::MAX)).map(|(_, frame)| (frame.place, frame.due)).collect()
    }

    #[test]
    fn each_flow_has_a_delay_of_its_own_and_all_leave_in_time() {
        let mut bands = Bands::new(&direction(vec![flow(5, 100), flow(6, 500)]), &counters(3), 1);
        for vlan in [0, 5, 6, 7] {
            push(&mut bands, vlan, 10);
        }
        assert_eq!(bands.next_due(), Some(110));
        assert_eq!(drain(&mut bands), [(5, 110), (6, 510), (0, 1010), (7, 1010)]);
        assert!(bands.done());
    }

    #[test]
    fn the_first_flow_that_finds_a_frame_has_it() {
        let mut bands = Bands::new(&direction(vec![flow(5, 100), flow(5, 500)]), &counters(3), 1);
        push(&mut bands, 5, 0);
        assert_eq!(drain(&mut bands), [(5, 100)]);
    }

    #[test]
    fn a_flow_that_goes_lets_out_what_is_inside_and_a_flow_that_stays_overtakes_nothing() {
        let stats = counters(4);
        let mut bands = Bands::new(&direction(vec![flow(5, 100), flow(6, 500)]), &stats[..3], 1);
        let (gone, kept) = (push(&mut bands, 5, 0), push(&mut bands, 6, 0));
        let next = [stats[0].clone(), stats[2].clone(), stats[3].clone()];
        bands.set(&direction(vec![flow(6, 50), flow(7, 70)]), &next, 1, 0);
        assert_eq!(bands.classify(&tagged(5)), bands.classify(&tagged(0)));
        assert_eq!(push(&mut bands, 6, 10), kept);
        bands.forget_left();
        assert_eq!(bands.all().count(), 4);
        assert_eq!(drain(&mut bands), [(5, 100), (6, 500), (6, 500)]);
        bands.forget_left();
        assert_eq!(bands.all().count(), 3);
        assert_ne!(bands.classify(&tagged(7)), gone);
    }

    #[test]
    fn a_full_buffer_of_one_flow_is_that_flows_alone() {
        let mut slow = flow(5, 100);
        slow.settings.rate = Some(crate::settings::Rate { bytes_per_s: 1, ..Default::default() });
        let mut bands = Bands::new(&direction(vec![slow]), &counters(2), 1);
        let slot = push(&mut bands, 5, 0);
        for _ in 0..3 {
            push(&mut bands, 5, 0);
        }
        push(&mut bands, 0, 0);
        assert_eq!(bands.pop_due(2000).map(|(_, frame)| frame.place), Some(0));
        let dropped = bands.take_dropped();
        assert_eq!(dropped.iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), [slot; 3]);
        assert!(bands.take_dropped().is_empty());
    }
}
