//! The delay line: every frame leaves after its delay and jitter, in order unless reordering is configured.

use std::collections::VecDeque;

use crate::frame::{Dropped, Frame, Impairment, Ns};
use crate::random::Random;
use crate::settings::Settings;

/// What a table of a distribution counts as one jitter (NETEM_DIST_SCALE).
const SCALE: i128 = 8192;

/// Frames sorted by the time of their leaving.
pub struct Delay {
    line: VecDeque<Frame>,
    last_due: Ns,
    random: Random,
    since_reordered: u32,
    settings: Settings,
}

impl Delay {
    pub fn new(settings: &Settings, seed: u64) -> Delay {
        Delay {
            line: VecDeque::new(),
            last_due: 0,
            random: Random::new(seed),
            since_reordered: 0,
            settings: settings.clone(),
        }
    }

    /// From here on frames are delayed so; those inside stay as they are, and none that comes overtakes them.
    pub fn set(&mut self, settings: &Settings) {
        self.settings = settings.clone();
    }

    /// Whether this frame may go at once, ahead of all others (sch_netem.c, netem_enqueue).
    fn reorders(&mut self) -> bool {
        let s = &self.settings;
        let at_once = s.gap > 0 && self.since_reordered + 1 >= s.gap && self.random.chance(s.reorder_p32);
        self.since_reordered = if at_once { 0 } else { self.since_reordered.saturating_add(1) };
        at_once
    }

    /// The delay of one frame: around the mean, by the distribution, never below 0 (sch_netem.c, tabledist).
    fn draw(&mut self) -> Ns {
        let s = &self.settings;
        if s.jitter_ns == 0 {
            return s.delay_ns;
        }
        let off = if s.distribution.is_empty() {
            i128::from(self.random.below(2 * s.jitter_ns)) - i128::from(s.jitter_ns)
        } else {
            let table = &s.distribution;
            i128::from(table[self.random.below(table.len() as u64) as usize]) * i128::from(s.jitter_ns) / SCALE
        };
        (i128::from(s.delay_ns) + off).max(0) as Ns
    }
}

impl Impairment for Delay {
    fn push(&mut self, mut frame: Frame, now: Ns) -> Result<(), Dropped> {
        let due = if self.reorders() { now } else { now + self.draw() };
        if !self.settings.keep_order || self.settings.reorder_p32 > 0 {
            frame.due = due;
            let at = self.line.partition_point(|f| f.due <= due);
            self.line.insert(at, frame);
            self.last_due = self.last_due.max(due);
            return Ok(());
        }
        self.last_due = self.last_due.max(due);
        frame.due = self.last_due;
        self.line.push_back(frame);
        Ok(())
    }

    fn next_due(&self) -> Option<Ns> {
        self.line.front().map(|f| f.due)
    }

    fn pop_due(&mut self, now: Ns) -> Option<Frame> {
        if self.next_due()? > now {
            return None;
        }
        self.line.pop_front()
    }

    fn pending(&self) -> usize {
        self.line.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::P32;

    fn frame(place: u64) -> Frame {
        Frame { place, record_bytes: 100, wire_bytes: 100, packets: 1, packet_bytes: 100, due: 0 }
    }

    fn settings(delay_ns: Ns, jitter_ns: Ns) -> Settings {
        Settings { delay_ns, jitter_ns, keep_order: true, ..Settings::default() }
    }

    /// (place, due) of every frame that leaves until `end`.
    fn drain(line: &mut Delay, end: Ns) -> Vec<(u64, Ns)> {
        std::iter::from_fn(|| line.pop_due(end)).map(|f| (f.place, f.due)).collect()
    }

    #[test]
    fn a_frame_leaves_exactly_its_delay_after_it_came() {
        let mut line = Delay::new(&settings(16_000_000, 0), 1);
        line.push(frame(0), 5).unwrap();
        line.push(frame(1), 7).unwrap();
        assert_eq!((line.next_due(), line.pending(), line.done()), (Some(16_000_005), 2, false));
        assert_eq!(line.pop_due(16_000_004), None);
        assert_eq!(line.pop_due(16_000_005).map(|f| f.place), Some(0));
        assert_eq!(drain(&mut line, u64::MAX), [(1, 16_000_007)]);
        assert!(line.done());
    }

    #[test]
    fn a_live_cut_loses_and_reorders_nothing() {
        let mut line = Delay::new(&settings(100, 0), 1);
        line.push(frame(0), 0).unwrap();
        line.push(frame(1), 10).unwrap();
        line.set(&settings(20, 0));
        line.push(frame(2), 20).unwrap();
        line.push(frame(3), 200).unwrap();
        assert_eq!(drain(&mut line, 1000), [(0, 100), (1, 110), (2, 110), (3, 220)]);
    }

    #[test]
    fn jitter_stays_within_bounds_and_keeps_order() {
        let mut line = Delay::new(&settings(1000, 300), 9);
        (0..20_000).for_each(|n| line.push(frame(n), n * 10).unwrap());
        let out = drain(&mut line, u64::MAX);
        assert!(out.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1));
        assert!(out.iter().all(|(n, due)| (n * 10 + 700..=n * 10 + 1300).contains(due)));
    }

    #[test]
    fn jitter_without_order_is_uniform_around_the_delay() {
        let mut line = Delay::new(&Settings { keep_order: false, ..settings(10_000, 3000) }, 9);
        let mut delays = Vec::new();
        for n in 0..100_000 {
            line.push(frame(n), n * 100_000).unwrap();
            delays.extend(drain(&mut line, n * 100_000 + 50_000).iter().map(|(n, due)| due - n * 100_000));
        }
        let mean = delays.iter().sum::<u64>() as f64 / delays.len() as f64;
        let below = delays.iter().filter(|&&d| d < 8500).count() as f64 / delays.len() as f64;
        assert!((mean - 10_000.0).abs() < 30.0, "{mean}");
        assert!((below - 0.25).abs() < 0.01, "{below}");
    }

    #[test]
    fn a_table_is_the_jitters_shape() {
        let s = Settings { distribution: vec![-8192, 0, 16384].into(), ..settings(1000, 100) };
        let mut line = Delay::new(&s, 2);
        let mut seen = [0; 3];
        for n in 0..3000 {
            line.push(frame(n), n * 10_000).unwrap();
            match line.pop_due(u64::MAX).unwrap().due - n * 10_000 {
                900 => seen[0] += 1,
                1000 => seen[1] += 1,
                1200 => seen[2] += 1,
                other => panic!("{other}"),
            }
        }
        assert!(seen.iter().all(|&n| (850..1150).contains(&n)), "{seen:?}");
    }

    #[test]
    fn reordered_frames_go_at_once() {
        let s = Settings { reorder_p32: P32, gap: 5, ..settings(1000, 0) };
        let mut line = Delay::new(&s, 2);
        (0..20).for_each(|n| line.push(frame(n), n).unwrap());
        let out = drain(&mut line, u64::MAX);
        assert_eq!(out[..4], [(4, 4), (9, 9), (14, 14), (19, 19)]);
        assert_eq!(out[4], (0, 1000));
    }

    #[test]
    fn whatever_comes_leaves_once_and_never_before_it_came() {
        let mut dice = Random::new(77);
        for round in 0..50 {
            let s = Settings {
                keep_order: dice.chance(P32 / 2),
                reorder_p32: if dice.chance(P32 / 2) { P32 / 10 } else { 0 },
                gap: 1,
                ..settings(dice.below(1000), dice.below(500))
            };
            let (mut line, mut now, mut out) = (Delay::new(&s, round), 0, Vec::new());
            for n in 0..500 {
                now += dice.below(20);
                line.push(Frame { wire_bytes: now as u32, ..frame(n) }, now).unwrap();
                while let Some(f) = line.pop_due(now) {
                    assert!(f.due <= now && f.due >= u64::from(f.wire_bytes));
                    out.push(f.place);
                }
            }
            out.extend(drain(&mut line, u64::MAX).iter().map(|(place, _)| place));
            out.sort_unstable();
            assert!(out.iter().copied().eq(0..500));
        }
    }
}
