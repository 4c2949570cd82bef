//! The bottleneck: a rate with bursts, and a queue before it whose size is apart from the delay. As sch_tbf does it.

use std::collections::VecDeque;

use crate::frame::{Cause, Dropped, Frame, Impairment, Ns};
use crate::settings::Rate;

const SECOND: u128 = 1_000_000_000;

/// First in, first out; a frame leaves when there are tokens for it. While a frame waits, its `due` is when it came.
#[derive(Clone)]
pub struct Bottleneck {
    rate: Option<Rate>,
    queue: VecDeque<Frame>,
    queued_bytes: u64,
    /// When the first of the queue leaves, or the last one left; in ns times bytes a second, so that no rate is lost
    /// by rounding.
    head: u128,
    /// When there were no tokens at all, in the same unit.
    empty: u128,
}

impl Bottleneck {
    pub fn new(rate: Option<Rate>) -> Bottleneck {
        Bottleneck { rate, queue: VecDeque::new(), queued_bytes: 0, head: 0, empty: 0 }
    }

    /// From `now` on the link has this rate; None: none at all. What waits is not lost, and leaves at the new rate: the
    /// tokens that were there stay. What was due until `now` must have been taken before.
    pub fn set(&mut self, rate: Option<Rate>, now: Ns) {
        let (old, new) = (self.speed(), rate.map_or(1, |r| u128::from(r.bytes_per_s)));
        let waits = self.next_due().map_or(false, |due| due > now);
        if waits {
            let tokens = (u128::from(now) * old).saturating_sub(self.empty - self.cost());
            self.head = u128::from(now) * new;
            self.empty = self.head.saturating_sub(tokens);
        } else if new != old {
            self.empty = self.empty / old * new;
            self.head = (self.head + old - 1) / old * new;
        }
        self.rate = rate;
        if waits {
            self.start();
        }
    }

    /// Those that came last, so many of them.
    pub fn newest(&mut self, count: usize) -> impl Iterator<Item = &mut Frame> {
        let others = self.queue.len().saturating_sub(count);
        self.queue.iter_mut().skip(others)
    }

    fn speed(&self) -> u128 {
        self.rate.map_or(1, |r| u128::from(r.bytes_per_s))
    }

    /// The tokens that the first of the queue takes.
    fn cost(&self) -> u128 {
        match (self.rate, self.queue.front()) {
            (Some(rate), Some(frame)) => u128::from(link_bytes(&rate, frame)) * SECOND,
            _ => 0,
        }
    }

    /// Finds out when the first of the queue leaves, and takes its tokens.
    fn start(&mut self) {
        let frame = match self.queue.front() {
            Some(frame) => frame,
            None => return,
        };
        self.head = self.head.max(u128::from(frame.due) * self.speed());
        if let Some(rate) = self.rate {
            let cost = self.cost();
            self.head = self.head.max(self.empty + cost);
            // A frame longer than the burst leaves as soon as there are tokens for it.
            let most = (u128::from(rate.link_bytes(rate.burst_bytes)) * SECOND).max(cost);
            self.empty = self.empty.max(self.head.saturating_sub(most)) + cost;
        }
    }
}

/// What a frame takes on the link: every packet of a super-frame has headers, and cells, of its own.
fn link_bytes(rate: &Rate, frame: &Frame) -> u64 {
    let (whole, each) = (u64::from(frame.wire_bytes), u64::from(frame.packet_bytes));
    let before = u64::from(frame.packets.saturating_sub(1));
    rate.link_bytes(each) * before + rate.link_bytes(whole.saturating_sub(each * before))
}

impl Impairment for Bottleneck {
    fn push(&mut self, mut frame: Frame, now: Ns) -> Result<(), Dropped> {
        let bytes = u64::from(frame.wire_bytes);
        let full = self.rate.map_or(false, |r| self.queued_bytes + bytes > r.buffer_bytes);
        if full && !self.queue.is_empty() {
            return Err(Dropped { frame, cause: Cause::Buffer });
        }
        frame.due = now;
        self.queue.push_back(frame);
        self.queued_bytes += bytes;
        if self.queue.len() == 1 {
            self.start();
        }
        Ok(())
    }

    fn next_due(&self) -> Option<Ns> {
        self.queue.front().map(|_| ((self.head + self.speed() - 1) / self.speed()) as Ns)
    }

    fn pop_due(&mut self, now: Ns) -> Option<Frame> {
        let due = self.next_due().filter(|&due| due <= now)?;
        let mut frame = self.queue.pop_front()?;
        self.queued_bytes -= u64::from(frame.wire_bytes);
        frame.due = due;
        self.start();
        Some(frame)
    }

    fn pending(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn frame(place: u64, wire_bytes: u32) -> Frame {
        Frame { place, record_bytes: wire_bytes, wire_bytes, packets: 1, packet_bytes: wire_bytes, due: 0 }
    }

    fn rate(bytes_per_s: u64, buffer_bytes: u64, burst_bytes: u64) -> Option<Rate> {
        Some(Rate { bytes_per_s, buffer_bytes, burst_bytes, ..Rate::default() })
    }

    fn drain(link: &mut Bottleneck, end: Ns) -> Vec<(u64, Ns)> {
        std::iter::from_fn(|| link.pop_due(end)).map(|f| (f.place, f.due)).collect()
    }

    #[test]
    fn a_burst_passes_and_the_rest_waits_for_tokens() {
        let mut link = Bottleneck::new(rate(1_000_000_000, 10_000, 1500));
        (0..4).for_each(|n| link.push(frame(n, 1000), 5000).unwrap());
        assert_eq!(drain(&mut link, 5000), [(0, 5000)]);
        assert_eq!(drain(&mut link, 9999), [(1, 5500), (2, 6500), (3, 7500)]);
        link.push(frame(4, 10), 20_000).unwrap();
        assert_eq!(drain(&mut link, 20_000), [(4, 20_000)]);
    }

    #[test]
    fn the_rate_holds_to_the_last_bit_for_small_frames() {
        // 64 B at 10 Gbit/s take 51.2 ns each: 10^6 of them, 51,200,000 ns; the first leaves at once.
        let mut link = Bottleneck::new(rate(1_250_000_000, u64::MAX, 0));
        (0..1_000_001).for_each(|n| link.push(frame(n, 64), 100).unwrap());
        assert_eq!(drain(&mut link, u64::MAX).last().unwrap().1, 51_200_100);
    }

    #[test]
    fn the_buffer_is_what_waits() {
        let mut link = Bottleneck::new(rate(1000, 3000, 1000));
        let now = 5 * SECOND as Ns;
        link.push(frame(0, 1000), now).unwrap();
        assert!(link.pop_due(now).is_some());
        (1..4).for_each(|n| link.push(frame(n, 1000), now).unwrap());
        let dropped = link.push(frame(4, 1000), now).unwrap_err();
        assert_eq!((dropped.frame.place, dropped.cause), (4, Cause::Buffer));
        assert!(link.pop_due(now + SECOND as Ns).is_some());
        assert!(link.push(frame(5, 1000), now + SECOND as Ns).is_ok());
    }

    #[test]
    fn an_empty_queue_takes_whatever_comes() {
        let mut link = Bottleneck::new(rate(1000, 10, 10));
        assert!(link.push(frame(0, 65_000), 0).is_ok());
    }

    #[test]
    fn a_live_change_of_rate_loses_nothing_and_none_lets_all_go() {
        let mut link = Bottleneck::new(rate(1000, 1 << 20, 0));
        (0..4).for_each(|n| link.push(frame(n, 1000), 5_000_000_000).unwrap());
        assert_eq!(drain(&mut link, 5_500_000_000), [(0, 5_000_000_000)]);
        // Half of the next one's tokens are there; the other half comes twice as fast.
        link.set(rate(2000, 1 << 20, 0), 5_500_000_000);
        assert_eq!(drain(&mut link, 6_300_000_000), [(1, 5_750_000_000), (2, 6_250_000_000)]);
        link.set(None, 6_300_000_000);
        link.push(frame(4, 1000), 6_600_000_000).unwrap();
        assert_eq!(drain(&mut link, u64::MAX), [(3, 6_300_000_000), (4, 6_600_000_000)]);
        assert!(link.done());
    }

    #[test]
    fn never_more_than_the_rate_and_a_burst_and_never_idle_while_something_waits() {
        let mut dice = Random::new(4);
        for _ in 0..50 {
            let (speed, burst) = (1 + dice.below(1 << 31), dice.below(5000));
            let mut link = Bottleneck::new(rate(speed, u64::MAX, burst));
            let (mut now, mut sizes) = (SECOND as Ns, Vec::new());
            for n in 0..200 {
                now += dice.below(10_000);
                sizes.push((now, 60 + dice.below(1500) as u32));
                link.push(frame(n, sizes[n as usize].1), now).unwrap();
            }
            let out = drain(&mut link, u64::MAX);
            // The textbook: tokens fill up to the burst. Times and tokens in ns times bytes a second.
            let rate = u128::from(speed);
            let (mut tokens, mut at) = ((u128::from(burst)).min(rate) * SECOND, SECOND * rate);
            for ((place, due), (came, size)) in out.iter().zip(sizes) {
                let (need, start) = (u128::from(size) * SECOND, at.max(u128::from(came) * rate));
                let have = (tokens + (start - at)).min((u128::from(burst) * SECOND).max(need));
                at = start + need.saturating_sub(have);
                tokens = have.max(need) - need;
                assert_eq!(u128::from(*due), (at + rate - 1) / rate, "{place}");
            }
        }
    }

    #[test]
    fn a_rate_that_rises_lets_the_first_go_and_one_that_falls_keeps_it_longer() {
        let mut link = Bottleneck::new(rate(125, 1 << 20, 0));
        (0..3).for_each(|n| link.push(frame(n, 1000), 0).unwrap());
        assert_eq!(drain(&mut link, 9 * SECOND as Ns), [(0, 8_000_000_000)]);
        link.set(rate(125_000_000, 1 << 20, 0), 9_000_000_000);
        assert_eq!(link.next_due(), Some(9_000_007_000));
        link.set(rate(875, 1 << 20, 0), 9_000_000_000);
        assert_eq!(drain(&mut link, u64::MAX), [(1, 10_000_000_000), (2, 11_142_857_143)]);
    }

    #[test]
    fn however_often_the_rate_changes_all_bytes_are_paid_for_and_none_twice() {
        let mut dice = Random::new(8);
        for _ in 0..50 {
            let mut link = Bottleneck::new(rate(1000, u64::MAX, 0));
            let (mut speed, mut now, mut paid, mut out) = (1000, SECOND as Ns, 0_u128, Vec::new());
            (0..200).for_each(|n| link.push(frame(n, 1000), now).unwrap());
            out.extend(drain(&mut link, now));
            while !link.done() {
                let (until, next) = (now + dice.below(3_000_000_000), 1 + dice.below(100_000));
                let left = drain(&mut link, until);
                let last = if link.done() { left.last().unwrap().1 } else { until };
                paid += u128::from(last - now) * u128::from(speed);
                assert!(left.iter().all(|(_, due)| (now..=until).contains(due)));
                out.extend(left);
                link.set(rate(next, u64::MAX, 0), until);
                (now, speed) = (until, next);
            }
            assert!(out.iter().map(|(place, _)| *place).eq(0..200));
            // The first left at once. Each time is rounded up to a nanosecond.
            let cost = 199_000 * SECOND;
            assert!((cost..cost + 200 * 100_000).contains(&paid), "{paid}");
        }
    }

    #[test]
    fn every_packet_of_a_super_frame_has_the_links_headers_and_cells() {
        let link = Rate { bytes_per_s: 1_000_000_000, buffer_bytes: 1 << 20, overhead_bytes: 10, ..Rate::default() };
        let super_frame = Frame { packets: 3, packet_bytes: 1000, ..frame(0, 2500) };
        assert_eq!(link_bytes(&link, &super_frame), 1010 + 1010 + 510);
        let atm = Rate { atm: true, ..link };
        assert_eq!(link_bytes(&atm, &super_frame), (22 + 22 + 11) * 53);
        let mut line = Bottleneck::new(Some(atm));
        line.push(super_frame, 0).unwrap();
        line.push(frame(1, 38), 0).unwrap();
        assert_eq!(drain(&mut line, u64::MAX), [(0, 55 * 53), (1, 56 * 53)]);
    }
}
