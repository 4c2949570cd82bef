//! One direction's way: the delay line, then the bottleneck. Times are exact however late one looks.

use crate::bottleneck::Bottleneck;
use crate::delay::Delay;
use crate::frame::{Cause, Dropped, Frame, Impairment, Ns};
use crate::settings::Settings;

/// The delay line and the bottleneck behind it.
pub struct Pipeline {
    delay: Delay,
    bottleneck: Bottleneck,
    shaped: bool,
    limit: usize,
    /// The limit before it was cut, for as long as more is inside than now may be; else 0.
    easing: usize,
    dropped: Vec<Dropped>,
    /// How many frames of the bottleneck's queue, the newest, `take_queued` has not told yet.
    untold: usize,
}

impl Pipeline {
    pub fn new(settings: &Settings, seed: u64) -> Pipeline {
        let mut pipeline = Pipeline {
            delay: Delay::new(settings, seed),
            bottleneck: Bottleneck::new(settings.rate),
            shaped: false,
            limit: 0,
            easing: 0,
            dropped: Vec::new(),
            untold: 0,
        };
        pipeline.set(settings, 0);
        pipeline
    }

    /// From `now` on so; no frame inside is lost or overtaken, and none that comes meets a limit that they fill. What was due
    /// until `now` must have been taken before.
    pub fn set(&mut self, settings: &Settings, now: Ns) {
        self.delay.set(settings);
        self.bottleneck.set(settings.rate, now);
        self.shaped = settings.rate.is_some();
        let before = self.limit.max(self.easing);
        self.limit = settings.limit as usize;
        self.easing = if self.pending() >= self.limit { before } else { 0 };
    }

    /// The frames that began to wait before the bottleneck since the last call, and wait still.
    pub fn take_queued(&mut self) -> impl Iterator<Item = &mut Frame> {
        let count = std::mem::take(&mut self.untold);
        self.bottleneck.newest(count)
    }

    /// The frames that met a full buffer since the last call.
    pub fn take_dropped(&mut self) -> Vec<Dropped> {
        std::mem::take(&mut self.dropped)
    }
}

impl Impairment for Pipeline {
    fn push(&mut self, frame: Frame, now: Ns) -> Result<(), Dropped> {
        if self.pending() < self.limit {
            self.easing = 0;
        } else if self.pending() >= self.easing {
            return Err(Dropped { frame, cause: Cause::Limit });
        }
        self.delay.push(frame, now)
    }

    fn next_due(&self) -> Option<Ns> {
        match (self.delay.next_due(), self.bottleneck.next_due()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn pop_due(&mut self, now: Ns) -> Option<Frame> {
        loop {
            let arrives = self.delay.next_due().filter(|&t| t <= now);
            let leaves = self.bottleneck.next_due().filter(|&t| t <= now);
            match (arrives, leaves) {
                // What leaves makes room for what arrives at the same time.
                (Some(a), Some(l)) if l <= a => return self.bottleneck.pop_due(now),
                (Some(a), _) => {
                    let frame = self.delay.pop_due(now)?;
                    if !self.shaped && self.bottleneck.done() {
                        return Some(frame);
                    }
                    match self.bottleneck.push(frame, a) {
                        Ok(()) => self.untold += 1,
                        Err(dropped) => self.dropped.push(dropped),
                    }
                }
                (None, Some(_)) => return self.bottleneck.pop_due(now),
                (None, None) => return None,
            }
        }
    }

    fn pending(&self) -> usize {
        self.delay.pending() + self.bottleneck.pending()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Rate;

    fn frame(place: u64) -> Frame {
        Frame { place, record_bytes: 1000, wire_bytes: 1000, packets: 1, packet_bytes: 1000, due: 0 }
    }

    fn settings(rate: u64, buffer_bytes: u64) -> Settings {
        Settings {
            delay_ns: 1_000_000,
            keep_order: true,
            limit: 100,
            rate: Some(Rate { bytes_per_s: rate, buffer_bytes, burst_bytes: 0, ..Rate::default() }),
            ..Settings::default()
        }
    }

    fn drain(pipe: &mut Pipeline, end: Ns) -> Vec<(u64, Ns)> {
        std::iter::from_fn(|| pipe.pop_due(end)).map(|f| (f.place, f.due)).collect()
    }

    #[test]
    fn delay_first_then_the_bottleneck() {
        let mut pipe = Pipeline::new(&settings(1_000_000_000, 10_000), 1);
        (0..3).for_each(|n| pipe.push(frame(n), 10).unwrap());
        assert_eq!(pipe.next_due(), Some(1_000_010));
        assert_eq!(drain(&mut pipe, 1_001_010), [(0, 1_000_010), (1, 1_001_010)]);
        assert_eq!(drain(&mut pipe, u64::MAX), [(2, 1_002_010)]);
    }

    #[test]
    fn looking_late_changes_no_time_and_no_drop() {
        let (mut often, mut once) =
            (Pipeline::new(&settings(1 << 30, 3000), 1), Pipeline::new(&settings(1 << 30, 3000), 1));
        let mut seen = Vec::new();
        for n in 0..50 {
            often.push(frame(n), n * 700).unwrap();
            once.push(frame(n), n * 700).unwrap();
        }
        for now in (0..2_000_000).step_by(100) {
            seen.extend(drain(&mut often, now));
        }
        assert_eq!(seen, drain(&mut once, 2_000_000));
        let (a, b) = (often.take_dropped(), once.take_dropped());
        assert_eq!(a, b);
        assert!(!a.is_empty() && a.iter().all(|d| d.cause == Cause::Buffer));
        assert_eq!(seen.len() + a.len(), 50);
    }

    #[test]
    fn what_waits_before_the_bottleneck_is_told_once() {
        let mut pipe = Pipeline::new(&settings(1_000_000_000, 10_000), 1);
        (0..4).for_each(|n| pipe.push(frame(n), n * 10).unwrap());
        let queued = |pipe: &mut Pipeline| pipe.take_queued().map(|f| f.place).collect::<Vec<_>>();
        assert_eq!((drain(&mut pipe, 999_999), queued(&mut pipe)), (vec![], vec![]));
        assert_eq!(drain(&mut pipe, 1_000_020), [(0, 1_000_000)]);
        assert_eq!((queued(&mut pipe), queued(&mut pipe)), (vec![1, 2], vec![]));
        assert_eq!(drain(&mut pipe, 1_001_000), [(1, 1_001_000)]);
        assert_eq!((queued(&mut pipe), queued(&mut pipe)), (vec![3], vec![]));
        drain(&mut pipe, u64::MAX);
        assert!(queued(&mut pipe).is_empty());
    }

    #[test]
    fn beyond_the_limit_is_our_fault() {
        let mut pipe = Pipeline::new(&Settings { limit: 2, ..settings(1, 1) }, 1);
        assert!(pipe.push(frame(0), 0).is_ok() && pipe.push(frame(1), 0).is_ok());
        assert_eq!(pipe.push(frame(2), 0).unwrap_err().cause, Cause::Limit);
    }

    #[test]
    fn a_smaller_limit_waits_until_what_is_inside_fits() {
        let mut pipe = Pipeline::new(&Settings { limit: 5, rate: None, ..settings(1, 1) }, 1);
        (0..4).for_each(|n| pipe.push(frame(n), 0).unwrap());
        pipe.set(&Settings { limit: 2, rate: None, ..settings(1, 1) }, 0);
        assert!(pipe.push(frame(4), 0).is_ok() && pipe.push(frame(5), 0).is_err());
        assert_eq!(drain(&mut pipe, 1_000_000).len(), 5);
        assert!(pipe.push(frame(6), 0).is_ok() && pipe.push(frame(7), 0).is_ok());
        assert_eq!(pipe.push(frame(8), 0).unwrap_err().cause, Cause::Limit);
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let mut pipe = Pipeline::new(&Settings { rate: None, ..settings(1, 1) }, 1);
        (0..2).for_each(|n| pipe.push(frame(n), 0).unwrap());
        assert_eq!(drain(&mut pipe, 1_000_000), [(0, 1_000_000), (1, 1_000_000)]);
    }
}
