//! The bottleneck: a link of a rate, with a queue before it whose size is apart from the delay.

use std::collections::VecDeque;

use crate::frame::{Cause, Dropped, Frame, Impairment, Ns};
use crate::settings::Rate;

const SECOND: u128 = 1_000_000_000;

/// First in, first out; a frame leaves when its last bit is on the wire. While a frame waits, its `due` is when it came.
#[derive(Clone)]
pub struct Bottleneck {
    rate: Option<Rate>,
    queue: VecDeque<Frame>,
    queued_bytes: u64,
    /// When the first of the queue leaves.
    head_due: Ns,
    /// What integer division left over while the link was busy, in byte-seconds * 10^9: no rate is lost by rounding.
    carry: u128,
}

impl Bottleneck {
    pub fn new(rate: Option<Rate>) -> Bottleneck {
        Bottleneck { rate, queue: VecDeque::new(), queued_bytes: 0, head_due: 0, carry: 0 }
    }

    /// From the next frame on the link has this rate; None: none at all. What waits is not lost.
    pub fn set(&mut self, rate: Option<Rate>) {
        self.rate = rate;
        self.carry = 0;
    }

    /// The bytes that wait behind the frame on the wire.
    pub fn waiting_bytes(&self) -> u64 {
        self.queued_bytes - self.queue.front().map_or(0, |f| u64::from(f.wire_bytes))
    }

    /// Puts the first of the queue on the wire at `start`.
    fn start(&mut self, start: Ns) {
        if let Some(frame) = self.queue.front() {
            let rate = self.rate.map_or(u128::MAX, |r| u128::from(r.bytes_per_s));
            let work = u128::from(frame.wire_bytes) * SECOND + self.carry;
            self.head_due = start + (work / rate) as Ns;
            self.carry = if self.rate.is_some() { work % rate } else { 0 };
        }
    }
}

impl Impairment for Bottleneck {
    fn push(&mut self, mut frame: Frame, now: Ns) -> Result<(), Dropped> {
        let bytes = u64::from(frame.wire_bytes);
        let full = self.rate.map_or(false, |r| self.waiting_bytes() + bytes > r.buffer_bytes);
        if full && !self.queue.is_empty() {
            return Err(Dropped { frame, cause: Cause::Buffer });
        }
        frame.due = now;
        self.queue.push_back(frame);
        self.queued_bytes += bytes;
        if self.queue.len() == 1 {
            if now > self.head_due {
                self.carry = 0;
            }
            self.start(now.max(self.head_due));
        }
        Ok(())
    }

    fn next_due(&self) -> Option<Ns> {
        self.queue.front().map(|_| self.head_due)
    }

    fn pop_due(&mut self, now: Ns) -> Option<Frame> {
        if self.next_due()? > now {
            return None;
        }
        let mut frame = self.queue.pop_front()?;
        self.queued_bytes -= u64::from(frame.wire_bytes);
        frame.due = self.head_due;
        self.start(frame.due);
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
        Frame { place, record_bytes: wire_bytes, wire_bytes, packets: 1, due: 0 }
    }

    fn rate(bytes_per_s: u64, buffer_bytes: u64) -> Option<Rate> {
        Some(Rate { bytes_per_s, buffer_bytes, burst_bytes: 0 })
    }

    fn drain(link: &mut Bottleneck, end: Ns) -> Vec<(u64, Ns)> {
        std::iter::from_fn(|| link.pop_due(end)).map(|f| (f.place, f.due)).collect()
    }

    #[test]
    fn a_frame_takes_its_time_on_the_wire_and_the_next_waits() {
        let mut link = Bottleneck::new(rate(1_000_000_000, 10_000));
        link.push(frame(0, 1000), 50).unwrap();
        link.push(frame(1, 500), 60).unwrap();
        assert_eq!(drain(&mut link, 1049), []);
        assert_eq!(drain(&mut link, 9999), [(0, 1050), (1, 1550)]);
        link.push(frame(2, 10), 5000).unwrap();
        assert_eq!(drain(&mut link, 9999), [(2, 5010)]);
    }

    #[test]
    fn the_rate_holds_to_the_last_bit_for_small_frames() {
        // 64 B at 10 Gbit/s take 51.2 ns each: 10^6 of them, 51,200,000 ns.
        let mut link = Bottleneck::new(rate(1_250_000_000, u64::MAX));
        (0..1_000_000).for_each(|n| link.push(frame(n, 64), 0).unwrap());
        assert_eq!(drain(&mut link, u64::MAX).last().unwrap().1, 51_200_000);
    }

    #[test]
    fn the_buffer_is_what_waits_behind_the_wire() {
        let mut link = Bottleneck::new(rate(1000, 3000));
        (0..4).for_each(|n| link.push(frame(n, 1000), 0).unwrap());
        let dropped = link.push(frame(4, 1000), 0).unwrap_err();
        assert_eq!((dropped.frame.place, dropped.cause), (4, Cause::Buffer));
        assert_eq!(link.waiting_bytes(), 3000);
        assert!(link.pop_due(SECOND as Ns).is_some());
        assert!(link.push(frame(5, 1000), SECOND as Ns).is_ok());
    }

    #[test]
    fn an_empty_queue_takes_whatever_comes() {
        let mut link = Bottleneck::new(rate(1000, 10));
        assert!(link.push(frame(0, 65_000), 0).is_ok());
    }

    #[test]
    fn a_live_change_of_rate_loses_nothing_and_none_lets_all_go() {
        let mut link = Bottleneck::new(rate(1000, 1 << 20));
        (0..3).for_each(|n| link.push(frame(n, 1000), 0).unwrap());
        link.set(rate(2000, 1 << 20));
        assert_eq!(drain(&mut link, 1_500_000_000), [(0, 1_000_000_000), (1, 1_500_000_000)]);
        link.set(None);
        link.push(frame(3, 1000), 1_600_000_000).unwrap();
        assert_eq!(drain(&mut link, u64::MAX), [(2, 2_000_000_000), (3, 2_000_000_000)]);
        assert!(link.done());
    }

    #[test]
    fn never_faster_than_the_rate_never_idle_while_something_waits() {
        let mut dice = Random::new(4);
        for _ in 0..50 {
            let speed = 1 + dice.below(1 << 31);
            let mut link = Bottleneck::new(rate(speed, u64::MAX));
            let (mut now, mut busy_from, mut bytes, mut last) = (0, 0, 0_u128, 0);
            for n in 0..200 {
                now += dice.below(10_000);
                for f in std::iter::from_fn(|| link.pop_due(now)).collect::<Vec<_>>() {
                    last = f.due;
                }
                if link.done() {
                    busy_from = now.max(last);
                    bytes = 0;
                }
                let size = 60 + dice.below(1500) as u32;
                bytes += u128::from(size);
                link.push(frame(n, size), now).unwrap();
                let tail = drain(&mut link.clone(), u64::MAX).last().unwrap().1;
                let ideal = busy_from + (bytes * SECOND / u128::from(speed)) as Ns;
                assert!(tail >= ideal && tail <= ideal + 1, "{tail} {ideal}");
            }
        }
    }
}
