//! A direction between two ports in memory, at times that are told.

use super::*;
use crate::clock::HandClock;
use crate::flow_filter::Filter;
use crate::frame::P32;
use crate::memory_port::{frame, MemoryPort, MemoryRing, STAMP};
use crate::port::Moment;
use crate::settings::{Flow, Rate, Settings};
use crate::socket_ingress::SocketIngress;

const MS: Ns = 1_000_000;
const START: Ns = 1_000_000_000;

fn settings(delay_ms: Ns) -> Settings {
    Settings { delay_ns: delay_ms * MS, keep_order: true, limit: 1000, ..Settings::default() }
}

fn plain(delay_ms: Ns) -> DirectionSettings {
    DirectionSettings { memory_bytes: 8 << 20, settings: settings(delay_ms), flows: Vec::new() }
}

fn flow(vlan: u16, settings: Settings) -> Flow {
    Flow { filters: vec![Filter { vlan: Some(vlan), ..Filter::default() }], settings }
}

/// A numbered frame, with this VLAN tag, if not 0.
fn numbered(vlan: u16, number: u8) -> Vec<u8> {
    let whole = frame(number, 100);
    match vlan {
        0 => whole,
        vlan => [&whole[..12], &[0x81, 0], &vlan.to_be_bytes(), &whole[12..]].concat(),
    }
}

/// A direction at work, what it is given and what it sends.
struct Bench {
    direction: Direction,
    shared: Arc<Shared>,
    clock: HandClock,
    coming: MemoryPort,
    going: MemoryPort,
    stats: Vec<Arc<Stats>>,
}

impl Bench {
    fn new(settings: DirectionSettings) -> Bench {
        let coming = MemoryPort::default();
        let ingress = Ingress::Socket(SocketIngress::over(Box::new(coming.clone())));
        Bench::with(ingress, coming, settings)
    }

    fn with(ingress: Ingress, coming: MemoryPort, settings: DirectionSettings) -> Bench {
        let (going, shared) = (MemoryPort::default(), Arc::new(Shared::default()));
        let clock = HandClock::default();
        clock.0.set(Moment { real: STAMP, now: START });
        let stats: Vec<Arc<Stats>> = settings.all().map(|_| Arc::default()).collect();
        let arena = Arena::new(settings.memory_bytes).unwrap();
        let order = Order { settings, stats: stats.clone(), from: START, ingress: None };
        let egress = Egress::over(Box::new(going.clone()));
        let direction = Direction::new(ingress, egress, arena, &order, shared.clone(), 4 * MS);
        Bench { direction, shared, clock, coming, going, stats }
    }

    /// Frames with this tag, numbered so, come in now.
    fn arrive(&self, vlan: u16, numbers: std::ops::Range<u8>) {
        let stamp = self.clock.moment().real;
        numbers.for_each(|number| self.coming.arrives(&numbered(vlan, number), stamp, None));
    }

    fn step(&mut self) -> Wait {
        self.direction.step(&self.clock)
    }

    /// Steps through so much time by tenths of a millisecond; the numbers of the frames sent.
    fn run(&mut self, ns: Ns) -> Vec<u8> {
        for _ in 0..=ns / (MS / 10) {
            self.step();
            self.clock.pass(MS / 10);
        }
        self.going.sent().iter().map(|frame| frame[frame.len() - 1]).collect()
    }

    /// Orders other settings; bands that were there go on as far as `stats` say.
    fn order(&self, settings: DirectionSettings, stats: &[Arc<Stats>], ingress: Option<Ingress>) {
        self.shared.order(Order { settings, stats: stats.to_vec(), from: self.clock.now(), ingress });
    }
}

#[test]
fn a_frame_leaves_when_it_is_due_and_not_before() {
    let mut bench = Bench::new(plain(20));
    assert!(matches!(bench.step(), Wait::Listen(-1, _)));
    bench.arrive(0, 1..2);
    assert!(matches!(bench.step(), Wait::Sleep(_)), "busy, with a delay line to hide behind");
    assert!(matches!(bench.step(), Wait::Listen(_, ns) if ns < 20 * MS));
    bench.clock.pass(20 * MS - 1);
    assert_eq!(bench.step(), Wait::Spin(1));
    assert!(bench.going.sent().is_empty());
    bench.clock.pass(1);
    bench.step();
    assert_eq!(bench.going.sent(), [numbered(0, 1)]);
    let stats = bench.stats[0].to_json();
    assert_eq!((&stats["sent"], &stats["received_bytes"], &stats["queued"]), (&1.into(), &100.into(), &0.into()));
    assert_eq!(stats["lateness_max_ns"], 0);
}

#[test]
fn flows_have_delays_and_counters_of_their_own() {
    let lossy = Settings { loss_p32: P32, ..settings(1) };
    let flows = vec![flow(5, settings(2)), flow(6, lossy)];
    let mut bench = Bench::new(DirectionSettings { flows, ..plain(10) });
    bench.arrive(0, 10..13);
    bench.arrive(5, 20..22);
    bench.arrive(6, 30..34);
    assert_eq!(bench.run(11 * MS), [20, 21, 10, 11, 12]);
    let counted: Vec<_> = bench.stats.iter().map(|s| (s.received.get(), s.sent.get(), s.lost.get())).collect();
    assert_eq!(counted, [(3, 3, 0), (2, 2, 0), (4, 0, 4)]);
}

#[test]
fn duplicates_and_flows_go_together() {
    let twice = Settings { duplicate_p32: P32, ..settings(1) };
    let mut bench = Bench::new(DirectionSettings { flows: vec![flow(5, twice)], ..plain(1) });
    bench.arrive(5, 1..4);
    bench.arrive(0, 7..8);
    let mut sent = bench.run(2 * MS);
    sent.sort_unstable();
    assert_eq!(sent, [1, 1, 2, 2, 3, 3, 7]);
    assert_eq!((bench.stats[0].duplicated.get(), bench.stats[1].duplicated.get()), (0, 3));
}

#[test]
fn a_duplicate_is_lost_and_corrupted_as_any_packet() {
    let s = Settings { duplicate_p32: P32, loss_p32: P32 / 2, seed: Some(7), limit: 1 << 20, ..settings(1) };
    let mut bench = Bench::new(DirectionSettings { settings: s.clone(), memory_bytes: 64 << 20, ..plain(1) });
    let mut sent = 0;
    for _ in 0..200 {
        bench.arrive(0, 0..50);
        sent += bench.run(0).len();
    }
    sent += bench.run(2 * MS).len();
    // Where the packet was drawn to be lost its duplicate takes its place; else the duplicate is lost as often. As in netem:
    // 1/2 + 1/2 (1 + 1/2).
    assert!((12_300..12_700).contains(&sent), "{sent}");
    assert_eq!(10_000 + bench.stats[0].duplicated.get() - bench.stats[0].lost.get(), sent as u64);
    let s = Settings { loss_p32: 0, corrupt_p32: P32, ..s };
    let mut bench = Bench::new(DirectionSettings { settings: s, ..plain(1) });
    bench.arrive(0, 0..100);
    bench.run(2 * MS);
    assert_eq!((bench.stats[0].duplicated.get(), bench.stats[0].corrupted.get()), (100, 200));
}

#[test]
fn a_live_change_of_flows_loses_and_reorders_nothing() {
    let mut bench =
        Bench::new(DirectionSettings { flows: vec![flow(5, settings(20)), flow(6, settings(8))], ..plain(10) });
    for (vlan, numbers) in [(0, 0..4), (5, 50..54), (6, 60..64)] {
        bench.arrive(vlan, numbers);
    }
    bench.run(MS);
    // The second flow stays and becomes shorter, the first goes, another comes.
    let stats = [bench.stats[0].clone(), bench.stats[2].clone(), Arc::default()];
    let flows = vec![flow(6, settings(1)), flow(7, settings(3))];
    bench.order(DirectionSettings { flows, ..plain(10) }, &stats, None);
    bench.step();
    for (vlan, numbers) in [(0, 4..6), (5, 54..56), (6, 64..66), (7, 70..72)] {
        bench.arrive(vlan, numbers);
    }
    let sent = bench.run(30 * MS);
    let of = |tens: u8| sent.iter().copied().filter(|n| n / 10 == tens).collect::<Vec<_>>();
    assert_eq!((of(0), of(6), of(7)), ((0..6).collect(), (60..66).collect(), vec![70, 71]));
    // What belonged to the flow that went leaves as it was asked to; what comes now belongs to none.
    assert_eq!(of(5), [54, 55, 50, 51, 52, 53]);
    assert_eq!(sent.len(), 20);
    assert_eq!((stats[0].sent.get(), stats[1].sent.get(), stats[2].sent.get()), (8, 6, 2));
    bench.run(IDLE_NS);
    assert_eq!(bench.direction.bands.all().count(), 3);
}

#[test]
fn an_order_is_for_the_frames_that_come_after_it() {
    let mut bench = Bench::new(plain(20));
    bench.arrive(0, 1..3);
    bench.clock.pass(MS);
    bench.order(plain(5), &bench.stats, None);
    bench.arrive(0, 3..5);
    bench.step();
    bench.clock.pass(10 * MS);
    bench.step();
    assert!(bench.going.sent().is_empty(), "none overtakes those before the change");
    assert_eq!(bench.run(20 * MS), [1, 2, 3, 4]);
    bench.arrive(0, 5..6);
    assert_eq!(bench.run(6 * MS), [5]);
}

#[test]
fn what_waits_leaves_at_a_rate_that_was_raised_also_when_no_frame_comes() {
    let rated = |bytes_per_s: u64| {
        let rate = Rate { bytes_per_s, buffer_bytes: 1 << 20, ..Rate::default() };
        DirectionSettings { settings: Settings { rate: Some(rate), ..settings(1) }, ..plain(1) }
    };
    let mut bench = Bench::new(rated(1));
    bench.arrive(0, 1..5);
    assert!(bench.run(IDLE_NS).is_empty(), "each takes 100 s");
    bench.order(rated(10_000), &bench.stats, None);
    assert_eq!(bench.run(60 * MS), [1, 2, 3, 4]);
    let stats = bench.stats[0].to_json();
    assert!(stats["lateness_max_ns"].as_u64().unwrap() <= MS / 10, "none was due before the change: {stats:?}");
    // One that falls is for what waits as well; and one at the end for what is to leave before it.
    bench.arrive(0, 5..8);
    assert_eq!(bench.run(2 * MS), [5]);
    bench.order(rated(1), &bench.stats, None);
    assert!(bench.run(IDLE_NS).is_empty());
    bench.order(rated(1_000_000), &bench.stats, None);
    bench.shared.stop.store(true, SeqCst);
    assert_eq!(bench.run(MS), [6, 7]);
}

#[test]
fn a_ring_takes_over_at_once_and_nothing_is_lost() {
    let mut bench = Bench::new(plain(40));
    let (ring, mut kernel) = MemoryRing::pair(4);
    bench.arrive(0, 1..3);
    bench.run(MS);
    bench.order(plain(60), &bench.stats, Some(Ingress::Ring(ring)));
    bench.run(MS);
    let (stamp, late) = (bench.clock.moment().real, numbered(0, 3));
    bench.coming.arrives(&late, stamp, None);
    kernel.put(&late, stamp, None);
    bench.run(2 * MS);
    kernel.show();
    bench.run(2 * MS);
    assert_eq!(bench.run(100 * MS), [1, 2, 3]);
    assert_eq!(bench.shared.take_done().len(), 1, "the calls are for another thread to forget");
    assert!(kernel.owns(0));
}

#[test]
fn a_port_that_is_busy_is_waited_for_and_one_that_is_down_is_not() {
    let mut bench = Bench::new(plain(1));
    bench.arrive(0, 1..3);
    bench.going.refuses_with(Some(libc::ENOBUFS));
    bench.step();
    bench.clock.pass(MS);
    assert_eq!(bench.step(), Wait::Blocked(-1));
    assert_eq!(bench.stats[0].to_json()["queued"], 2);
    bench.going.refuses_with(None);
    assert_eq!(bench.run(MS), [1, 2]);
    bench.arrive(0, 3..4);
    bench.going.refuses_with(Some(libc::ENETDOWN));
    bench.run(2 * MS);
    bench.arrive(0, 4..5);
    bench.going.refuses_with(Some(libc::ENOBUFS));
    bench.run(STUCK_NS + 2 * MS);
    assert_eq!(bench.stats[0].refused.get(), 2);
}

/// A tunnel's super-frame as a record: a TCP segment of 2000 bytes behind VXLAN, which the kernel calls plain TCP.
fn tunnelled(number: u8) -> Vec<u8> {
    let (outer, inner) = (14, 14 + 20 + 8 + 8 + 14);
    let mut whole = vec![number; inner + 20 + 20 + 2000];
    whole[12..14].copy_from_slice(&[8, 0]);
    for (at, protocol) in [(outer, 17), (inner, 6)] {
        whole[at..at + 12].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
    }
    whole[inner + 20 + 12] = 0x50;
    let mut record = vec![1, 1];
    for field in [inner + 40, 1000, inner + 20, 16] {
        record.extend_from_slice(&(field as u16).to_ne_bytes());
    }
    record.extend_from_slice(&whole);
    record
}

#[test]
fn a_tunnels_super_frame_that_is_refused_keeps_no_other_frame_waiting() {
    let mut bench = Bench::new(plain(1));
    bench.coming.record_arrives(&tunnelled(9), STAMP, None);
    assert_eq!(bench.run(2 * MS), [9], "a kernel that can send it does");
    bench.coming.record_arrives(&tunnelled(9), bench.clock.moment().real, None);
    bench.step();
    bench.going.refuses_with(Some(libc::ENOBUFS));
    bench.clock.pass(MS);
    assert_ne!(bench.step(), Wait::Blocked(-1));
    assert_eq!((bench.stats[0].refused.get(), bench.stats[0].to_json()["queued"].clone()), (1, 0.into()));
}

#[test]
fn a_tunnels_super_frame_is_not_cut() {
    let half = Settings { loss_p32: P32 / 2, seed: Some(1), ..settings(1) };
    let mut bench = Bench::new(DirectionSettings { settings: half, ..plain(1) });
    (0..20).for_each(|_| bench.coming.record_arrives(&tunnelled(9), STAMP, None));
    let whole = tunnelled(9).len() - packet::VNET;
    bench.run(0);
    bench.clock.pass(2 * MS);
    bench.step();
    let sent = bench.going.sent();
    assert!(sent.iter().all(|frame| frame.len() == whole) && (4..17).contains(&sent.len()));
    assert_eq!(bench.stats[0].lost.get() + sent.len() as u64, 20);
}

#[test]
fn what_meets_a_full_buffer_is_counted_where_it_belongs() {
    let slow = Rate { bytes_per_s: 100_000, buffer_bytes: 300, burst_bytes: 0, ..Rate::default() };
    let slow = Settings { rate: Some(slow), ..settings(1) };
    let mut bench = Bench::new(DirectionSettings { flows: vec![flow(5, slow)], ..plain(1) });
    bench.arrive(5, 0..6);
    bench.coming.drops_frames(9);
    let sent = bench.run(IDLE_NS);
    assert_eq!(sent, [0, 1, 2]);
    assert_eq!((bench.stats[1].buffer.get(), bench.stats[0].limit.get()), (3, 9));
}

/// A flow of 10 frames a second, whose frames wait up to 2 s, beside others.
fn beside_a_slow_flow() -> DirectionSettings {
    let slow = Rate { bytes_per_s: 1000, buffer_bytes: 2000, burst_bytes: 100, ..Rate::default() };
    let flows = vec![flow(5, Settings { rate: Some(slow), ..settings(20) })];
    DirectionSettings { flows, ..plain(20) }
}

#[test]
fn a_slow_flow_keeps_no_room_from_others() {
    let mut bench = Bench::new(beside_a_slow_flow());
    let large = frame(1, 60_000);
    // Four chunks of 2 MiB; 60 MB come in while each frame of the slow flow waits for a second and more.
    let mut sent = 0;
    for n in 0..1000 {
        bench.coming.arrives(&large, bench.clock.moment().real, None);
        if n % 20 == 0 {
            bench.arrive(5, 7..8);
        }
        bench.step();
        bench.clock.pass(MS);
        sent += bench.going.sent().len();
    }
    assert_eq!((bench.stats[0].limit.get(), bench.stats[1].limit.get()), (0, 0));
    assert!(bench.stats[1].to_json()["queued"].as_u64().unwrap() > 10);
    sent += bench.run(3000 * MS).len();
    assert_eq!(sent as u64 + bench.stats[1].buffer.get(), 1050);
    assert_eq!(bench.stats[1].sent.get() + bench.stats[1].buffer.get(), 50);
}

#[test]
fn a_slow_flow_keeps_no_block_of_a_ring_from_others() {
    let (ring, mut kernel) = MemoryRing::pair(4);
    let mut bench = Bench::with(Ingress::Ring(ring), MemoryPort::default(), beside_a_slow_flow());
    for n in 0..200_u8 {
        let stamp = bench.clock.moment().real;
        for frame in [numbered(0, n), numbered(5, n)] {
            assert!(kernel.put(&frame, stamp, None), "{n}");
        }
        kernel.show();
        bench.run(30 * MS);
    }
    assert!(bench.stats[1].to_json()["queued"].as_u64().unwrap() > 10);
    assert_eq!((bench.stats[0].sent.get(), bench.stats[0].limit.get() + bench.stats[1].limit.get()), (200, 0));
}

#[test]
fn what_waits_before_a_bottleneck_leaves_the_ring_when_flows_come() {
    let (ring, mut kernel) = MemoryRing::pair(4);
    let slow = beside_a_slow_flow().flows.remove(0).settings;
    let alone = DirectionSettings { settings: slow, ..plain(20) };
    let mut bench = Bench::with(Ingress::Ring(ring), MemoryPort::default(), alone.clone());
    for n in 0..4 {
        kernel.put(&numbered(0, n), bench.clock.moment().real, None);
    }
    kernel.show();
    assert_eq!(bench.run(30 * MS), [0]);
    assert!(!kernel.owns(0));
    let stats = [bench.stats[0].clone(), Arc::default()];
    bench.order(DirectionSettings { flows: vec![flow(6, settings(20))], ..alone }, &stats, None);
    bench.run(30 * MS);
    assert!(kernel.owns(0));
    assert_eq!(bench.run(400 * MS), [1, 2, 3]);
}

#[test]
fn what_is_inside_leaves_before_the_end() {
    let mut bench = Bench::new(plain(5));
    bench.arrive(0, 1..3);
    bench.step();
    bench.shared.stop.store(true, SeqCst);
    bench.arrive(0, 3..4);
    assert_ne!(bench.step(), Wait::Done);
    bench.clock.pass(5 * MS);
    assert_eq!(bench.step(), Wait::Done);
    assert_eq!(bench.going.sent().len(), 2);
}
