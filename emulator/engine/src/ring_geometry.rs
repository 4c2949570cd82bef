//! For which delays a ring is, how large it is, and when it shows a frame. Pure.

use crate::frame::Ns;
use crate::settings::DirectionSettings;

/// The smallest block of a ring.
pub const SMALLEST_BLOCK: u64 = 128 << 10;
const LARGEST_BLOCK: u64 = 1 << 20;
/// A block that is not full is shown when the kernel has seen it twice, by a timer whose period is this part of the delay.
const RETIRE_PART: Ns = 8;
/// And no more than this, so that a lane that is made shorter can often keep its ring.
const MOST_RETIRE_MS: u64 = 8;
const MS: Ns = 1_000_000;
/// We may be kept from working for so long, while each block is shown with one frame in it.
const STALL_MS: u64 = 250;
/// Longer, and a stall while we look might fill the ring.
const MOST_LOOK_NS: Ns = 10 * MS;
/// What is so many times as large as it need be is not kept.
const WASTEFUL: u64 = 4;

/// What a direction asks of the memory that its frames wait in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// How many bytes all frames may take, and the part of it that is the bottleneck's buffer. With flows, frames leave
    /// this memory when they begin to wait before a bottleneck.
    pub memory_bytes: u64,
    pub buffer_bytes: u64,
    /// No frame leaves it earlier, and none later, whichever flow it belongs to.
    pub earliest_ns: Ns,
    pub latest_ns: Ns,
}

impl Demand {
    /// Of a direction and all its flows.
    pub fn of(settings: &DirectionSettings) -> Demand {
        let buffers = settings.all().map(|one| one.rate.map_or(0, |rate| rate.buffer_bytes));
        let buffer_bytes = buffers.fold(0, u64::saturating_add);
        let line = Demand {
            memory_bytes: settings.memory_bytes,
            buffer_bytes,
            earliest_ns: settings.all().map(|one| one.earliest_ns()).min().unwrap_or(0),
            latest_ns: settings.settings.latest_ns(),
        };
        if settings.flows.is_empty() {
            return line;
        }
        let latest_ns = settings.all().map(|one| one.line_ns()).max().unwrap_or(0);
        Demand { memory_bytes: line.memory_bytes.saturating_sub(buffer_bytes), buffer_bytes: 0, latest_ns, ..line }
    }
}

/// How large a ring is, and the period after which it shows a block that is not full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingGeometry {
    pub block_bytes: u64,
    pub blocks: u64,
    pub retire_ms: u64,
}

impl RingGeometry {
    /// The ring for this demand; None where frames are better fetched with calls: a delay that does not hide the time
    /// until a block is shown, or a queue so slow that blocks which are shown half empty would fill the memory.
    pub fn of(demand: &Demand, tick_ns: Ns) -> Option<RingGeometry> {
        let retire_ms = (demand.earliest_ns / RETIRE_PART / MS).clamp(1, MOST_RETIRE_MS);
        let least = least_blocks(demand, retire_ms);
        let sizes = (0..).map(|halved| LARGEST_BLOCK >> halved).take_while(|&bytes| bytes >= SMALLEST_BLOCK);
        let blocks = |bytes: u64| (least_bytes(demand) + bytes - 1) / bytes;
        let block_bytes = sizes.into_iter().find(|&bytes| blocks(bytes) >= least)?;
        let ring = RingGeometry { block_bytes, blocks: blocks(block_bytes), retire_ms };
        (ring.shown_ns(tick_ns) <= demand.earliest_ns).then_some(ring)
    }

    /// Whether a ring of this size does for this demand, too.
    pub fn suits(self, demand: &Demand, tick_ns: Ns) -> bool {
        self.shown_ns(tick_ns) <= demand.earliest_ns
            && self.bytes() >= least_bytes(demand)
            && self.bytes() <= least_bytes(demand).saturating_mul(WASTEFUL)
            && self.blocks >= least_blocks(demand, self.retire_ms)
    }

    /// All of it.
    pub fn bytes(self) -> u64 {
        self.block_bytes * self.blocks
    }

    /// Within this time of its coming a frame is seen, and by us.
    pub fn shown_ns(self, tick_ns: Ns) -> Ns {
        2 * (self.retire_ms * MS + tick_ns) + MS
    }

    /// How often it is enough to look for frames that leave no earlier than so: nobody else is to be woken up for nothing.
    pub fn look_ns(self, earliest_ns: Ns, tick_ns: Ns) -> Ns {
        earliest_ns.saturating_sub(self.shown_ns(tick_ns)).clamp(MS / 2, MOST_LOOK_NS)
    }
}

/// A quarter of a ring is to stay free: while one processor closes a block, others that bring frames take the ring for full
/// if the block that is a quarter of it ahead is in use (net/packet/af_packet.c, __packet_rcv_has_room).
fn least_bytes(demand: &Demand) -> u64 {
    demand.memory_bytes.saturating_add(demand.memory_bytes / 3)
}

/// So many blocks are needed if each is shown with one frame in it and stays as long as that one.
fn least_blocks(demand: &Demand, retire_ms: u64) -> u64 {
    (demand.latest_ns / MS).saturating_add(STALL_MS) / retire_ms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::settings::{Flow, Rate, Settings};

    const TICK: Ns = 4 * MS;

    fn delay(delay_ms: u64) -> Settings {
        Settings { delay_ns: delay_ms * MS, ..Settings::default() }
    }

    fn demand(settings: Settings, room_mib: u64) -> Demand {
        Demand::of(&DirectionSettings { memory_bytes: room_mib << 20, settings, flows: Vec::new() })
    }

    fn settings(delay_ms: u64, room_mib: u64) -> Demand {
        demand(delay(delay_ms), room_mib)
    }

    #[test]
    fn a_delay_that_hides_no_tick_is_for_calls() {
        assert_eq!(RingGeometry::of(&settings(10, 70), TICK), None);
        assert_eq!(RingGeometry::of(&settings(11, 70), TICK).map(|ring| ring.retire_ms), Some(1));
        assert_eq!(RingGeometry::of(&settings(4, 70), MS), None);
        assert_eq!(RingGeometry::of(&settings(5, 70), MS).map(|ring| ring.retire_ms), Some(1));
        assert_eq!(RingGeometry::of(&settings(16, 90), TICK).map(|ring| ring.retire_ms), Some(2));
        let jittery = demand(Settings { jitter_ns: 3 * MS, ..delay(16) }, 90);
        assert_eq!(RingGeometry::of(&jittery, TICK), None);
        let reordering = demand(Settings { reorder_p32: 1, ..delay(16) }, 90);
        assert_eq!(RingGeometry::of(&reordering, TICK), None);
    }

    #[test]
    fn a_ring_is_looked_at_before_what_it_shows_last_is_due() {
        for (delay_ms, look_ns) in [(11, MS / 2), (16, 3 * MS), (40, 10 * MS), (346, 10 * MS)] {
            let asked = settings(delay_ms, 90);
            let size = RingGeometry::of(&asked, TICK).unwrap();
            assert_eq!(size.look_ns(asked.earliest_ns, TICK), look_ns);
        }
    }

    #[test]
    fn a_long_line_has_large_blocks_and_a_slow_one_enough_of_them() {
        let far = RingGeometry::of(&settings(346, 583), TICK).unwrap();
        assert_eq!((far.block_bytes, far.retire_ms), (1 << 20, 8));
        assert!(far.bytes() * 3 / 4 >= 583 << 20 && far.bytes() < 800 << 20);
        // A second of queue, a frame now and then.
        let slow = Rate { bytes_per_s: 1_000_000, buffer_bytes: 1_000_000, burst_bytes: 1, ..Rate::default() };
        let slow = RingGeometry::of(&demand(Settings { rate: Some(slow), ..delay(16) }, 66), TICK).unwrap();
        assert!(slow.blocks * slow.retire_ms >= 16 + 1000 + 250, "{slow:?}");
        let slower = Rate { bytes_per_s: 1000, buffer_bytes: 1_000_000, burst_bytes: 1, ..Rate::default() };
        assert_eq!(RingGeometry::of(&demand(Settings { rate: Some(slower), ..delay(16) }, 66), TICK), None);
    }

    #[test]
    fn with_flows_no_frame_waits_in_the_ring_for_a_bottleneck() {
        let rate = Rate { bytes_per_s: 25_000, buffer_bytes: 50_000, burst_bytes: 1, ..Rate::default() };
        let flow = Flow { filters: Vec::new(), settings: Settings { rate: Some(rate), ..delay(20) } };
        let asked = DirectionSettings { memory_bytes: 90 << 20, settings: delay(16), flows: vec![flow] };
        let (memory_bytes, latest_ns) = ((90 << 20) - 50_000, 20 * MS);
        assert_eq!(Demand::of(&asked), Demand { memory_bytes, buffer_bytes: 0, earliest_ns: 16 * MS, latest_ns });
        let alone = DirectionSettings { settings: asked.flows[0].settings.clone(), flows: Vec::new(), ..asked };
        assert_eq!((Demand::of(&alone).buffer_bytes, Demand::of(&alone).latest_ns), (50_000, 2020 * MS));
    }

    #[test]
    fn a_ring_is_kept_where_it_does_and_is_not_wasteful() {
        let ring = RingGeometry::of(&settings(173, 324), TICK).unwrap();
        assert!(ring.suits(&settings(173, 324), TICK) && ring.suits(&settings(40, 124), TICK));
        assert!(!ring.suits(&settings(200, 355), TICK), "too small");
        assert!(!ring.suits(&settings(20, 94), TICK), "shown too late");
        assert!(!ring.suits(&settings(40, 64), TICK), "five times as large");
    }

    #[test]
    fn whatever_is_asked_a_ring_holds_it_and_shows_it_in_time() {
        let mut dice = Random::new(5);
        for _ in 0..20_000 {
            let rate = Rate {
                bytes_per_s: 1 + dice.below(1 << 31),
                buffer_bytes: dice.below(1 << 30),
                burst_bytes: 1,
                ..Rate::default()
            };
            let one = Settings {
                jitter_ns: dice.below(20 * MS),
                rate: Some(rate).filter(|_| dice.chance(1 << 31)),
                ..delay(dice.below(3000))
            };
            let flow = Flow { filters: Vec::new(), settings: delay(dice.below(3000)) };
            let flows = if dice.chance(1 << 31) { vec![flow] } else { Vec::new() };
            let settings = DirectionSettings { memory_bytes: dice.below(8 << 30), settings: one, flows };
            let asked = Demand::of(&settings);
            if let Some(size) = RingGeometry::of(&asked, TICK) {
                assert!(size.suits(&asked, TICK), "{asked:?} {size:?}");
                assert!(settings.all().all(|one| size.shown_ns(TICK) <= one.delay_ns - 4 * one.jitter_ns));
                assert!(size.bytes() >= asked.memory_bytes && size.block_bytes.is_power_of_two());
            }
        }
    }
}
