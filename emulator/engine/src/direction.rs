//! One direction at work, a thread of its own: frames in at one port, through their bands, out at the other.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use crate::arena::Arena;
use crate::bands::Bands;
use crate::clock::{Clock, SystemClock};
use crate::egress::Egress;
use crate::frame::{Cause, Dropped, Frame, Impairment, Ns};
use crate::pacing::{lull, pause, Pause, RealtimeBudget, Sleeps, SpinBudget, IDLE_NS, MARGIN_NS};
use crate::packet::{self, Shape};
use crate::port::Arrival;
use crate::processors::{thread_id, Processors};
use crate::receiver::{Ingress, Receiver};
use crate::ring_geometry::Demand;
use crate::settings::DirectionSettings;
use crate::stats::Stats;
use crate::sys;
use crate::thread::{sleeps, spin, Priority};

/// A port that takes no frame for so long is down.
const STUCK_NS: Ns = 20_000_000;
const SEND_BATCH: usize = 32;

/// New settings, for the frames that come in from `from` on, and what is to receive them if that changes too.
pub struct Order {
    pub settings: DirectionSettings,
    /// What each band counts with; one that goes on has the same as before.
    pub stats: Vec<Arc<Stats>>,
    pub from: Ns,
    pub ingress: Option<Ingress>,
}

/// What the control thread and a direction's thread share.
#[derive(Default)]
pub struct Shared {
    orders: Mutex<VecDeque<Order>>,
    /// How many orders were ever given: cheaper to look at than the queue.
    given: AtomicU64,
    /// What the direction has done with.
    done: Mutex<Vec<Ingress>>,
    /// The id of the direction's thread; 0 before it works.
    pub thread: AtomicI32,
    /// What the kernel did not permit that thread.
    pub priority: Priority,
    /// Take no more frames, send what is inside, end.
    pub stop: AtomicBool,
}

impl Shared {
    /// Hands new settings over.
    pub fn order(&self, order: Order) {
        self.orders.lock().expect("no thread panics").push_back(order);
        self.given.fetch_add(1, SeqCst);
    }

    /// What the direction has done with.
    pub fn take_done(&self) -> Vec<Ingress> {
        std::mem::take(&mut *self.done.lock().expect("no thread panics"))
    }
}

/// What a direction does until its next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing more: it was told to stop, and all has left.
    Done,
    /// Not at all.
    None,
    /// Spin for so long.
    Spin(Ns),
    /// Sleep for so long.
    Sleep(Ns),
    /// Sleep for so long, or until this descriptor has a frame.
    Listen(i32, Ns),
    /// Until this descriptor takes frames again.
    Blocked(i32),
}

/// One direction of a lane.
pub struct Direction {
    receiver: Receiver,
    egress: Egress,
    pub(crate) arena: Arena,
    pub(crate) bands: Bands,
    /// Frames that are due, and the slots of their bands.
    outbox: VecDeque<(usize, Frame)>,
    shared: Arc<Shared>,
    seen: u64,
    next: Option<Order>,
    checked: Ns,
    shortest_delay_ns: Ns,
    earliest_ns: Ns,
    realtime: RealtimeBudget,
    /// Whether the thread is to run before all others from now on, if that changes.
    realtime_change: Option<bool>,
    spins: SpinBudget,
    sleeps: Sleeps,
}

impl Direction {
    /// Receives with `ingress`, keeps frames in `arena` or in the ingress' own ring, and sends with `egress`. `order` is
    /// how it begins.
    pub fn new(
        ingress: Ingress,
        egress: Egress,
        mut arena: Arena,
        order: &Order,
        shared: Arc<Shared>,
        tick_ns: Ns,
    ) -> Direction {
        Direction {
            receiver: Receiver::new(ingress, &mut arena, tick_ns),
            egress,
            arena,
            bands: Bands::new(&order.settings, &order.stats, order.from),
            outbox: VecDeque::new(),
            shared,
            seen: 0,
            next: None,
            checked: 0,
            shortest_delay_ns: order.settings.shortest_delay_ns(),
            earliest_ns: Demand::of(&order.settings).earliest_ns,
            realtime: RealtimeBudget::default(),
            realtime_change: None,
            spins: SpinBudget::default(),
            sleeps: Sleeps::LATE,
        }
    }

    /// Works until it is told to stop and all has left; on a processor of its `own` if it has one.
    pub fn run(&mut self, own: Option<usize>) {
        self.shared.priority.raise();
        if let Some(own) = own {
            Processors::of(&[own]).allow(0);
            self.spins = SpinBudget::endless();
        }
        self.shared.thread.store(thread_id(), SeqCst);
        self.sleeps = sleeps();
        loop {
            let wait = self.step(&SystemClock);
            if let Some(first) = self.realtime_change.take() {
                self.shared.priority.set_realtime(first);
            }
            match wait {
                Wait::Done => return,
                Wait::None => (),
                Wait::Spin(ns) => spin(ns),
                Wait::Sleep(ns) => sys::wait(-1, 0, ns),
                Wait::Listen(fd, ns) => sys::wait(fd, libc::POLLIN, ns),
                Wait::Blocked(fd) => {
                    sys::wait(fd, libc::POLLOUT, MARGIN_NS);
                    sys::wait(-1, 0, MARGIN_NS / 2);
                }
            }
        }
    }

    /// Takes what came in and sends what is due; how to wait then.
    pub fn step(&mut self, clock: &dyn Clock) -> Wait {
        let stopping = self.shared.stop.load(SeqCst);
        self.take_orders(clock);
        if stopping {
            self.apply_next(clock);
        }
        let busy = !stopping && self.receive(clock);
        let blocked = self.send(clock);
        self.note(clock);
        if stopping && self.bands.done() && self.outbox.is_empty() {
            return Wait::Done;
        }
        if blocked {
            return Wait::Blocked(self.egress.descriptor());
        }
        self.pause(busy, clock)
    }

    fn take_orders(&mut self, clock: &dyn Clock) {
        let given = self.shared.given.load(SeqCst);
        while self.seen < given && !self.receiver.is_changing() {
            self.apply_next(clock);
            self.next = self.shared.orders.lock().expect("no thread panics").pop_front();
            if let Some(ingress) = self.next.as_mut().and_then(|order| order.ingress.take()) {
                self.receiver.change(ingress, &mut self.arena, clock.moment());
            }
            self.seen += 1;
        }
    }

    /// Carries out the order that waits. What is due until now has left by what was in force.
    fn apply_next(&mut self, clock: &dyn Clock) {
        let (order, now) = match self.next.take() {
            Some(order) => (order, clock.now()),
            None => return,
        };
        while let Some(frame) = self.bands.pop_due(now) {
            self.outbox.push_back(frame);
        }
        self.bands.set(&order.settings, &order.stats, order.from, now);
        self.arena.resize(order.settings.memory_bytes);
        self.shortest_delay_ns = order.settings.shortest_delay_ns();
        self.earliest_ns = Demand::of(&order.settings).earliest_ns;
    }

    /// When all frames from before the order that waits have been seen; None where none waits, or not for that.
    fn next_order_due(&mut self) -> Option<Ns> {
        let order = self.next.as_ref().filter(|_| !self.receiver.is_changing())?;
        Some(order.from + self.receiver.settle_ns(&mut self.arena))
    }

    /// Takes what came in; whether there was anything.
    fn receive(&mut self, clock: &dyn Clock) -> bool {
        let moment = clock.moment();
        // Where the port went down, a pending error is told once. Whether it is gone is for the control thread to see.
        let received = self.receiver.receive(&mut self.arena, moment).unwrap_or_default();
        self.bands.rest_stats().limit.add(received.no_room);
        let busy = received.more || !received.arrivals.is_empty();
        for arrival in received.arrivals {
            if self.next.as_ref().map_or(false, |order| arrival.at >= order.from) {
                self.apply_next(clock);
            }
            self.admit(arrival);
        }
        // It is for what waits, too, when no frame comes.
        if !busy && self.next_order_due().map_or(false, |due| moment.now >= due) {
            self.apply_next(clock);
        }
        busy
    }

    /// Puts a record on its way.
    pub(crate) fn push(&mut self, slot: usize, arrival: &Arrival, shape: Shape) {
        let frame = Frame {
            place: arrival.place,
            record_bytes: arrival.len as u32,
            wire_bytes: shape.wire_bytes,
            packets: shape.packets,
            packet_bytes: shape.packet_bytes,
            due: 0,
        };
        if let Err(dropped) = self.bands.at(slot).pipeline.push(frame, arrival.at) {
            self.drop_frame(slot, dropped);
        }
    }

    fn drop_frame(&mut self, slot: usize, dropped: Dropped) {
        let stats = &self.bands.at(slot).stats;
        let counter = match dropped.cause {
            Cause::Loss => &stats.lost,
            Cause::Buffer => &stats.buffer,
            Cause::Limit => &stats.limit,
        };
        counter.add(u64::from(dropped.frame.packets));
        self.arena.release(dropped.frame.place);
    }

    /// Sends what is due; whether the port took no more.
    fn send(&mut self, clock: &dyn Clock) -> bool {
        loop {
            let now = clock.now();
            while self.outbox.len() < SEND_BATCH {
                match self.bands.pop_due(now) {
                    Some(frame) => self.outbox.push_back(frame),
                    None => break,
                }
            }
            for (slot, dropped) in self.bands.take_dropped() {
                self.drop_frame(slot, dropped);
            }
            self.move_queued();
            if self.outbox.is_empty() {
                return false;
            }
            let records: Vec<_> =
                self.outbox.iter().map(|(_, f)| (self.arena.pointer(f.place), f.record_bytes as usize)).collect();
            // SAFETY: each is a record of the arena, which keeps it until it is released: when it has been sent.
            match unsafe { self.egress.send(&records) } {
                Ok(count) => self.sent(count, now),
                Err(error) => {
                    if self.is_busy(&error, now) {
                        return true;
                    }
                    if let Some((slot, _)) = self.forget_first() {
                        self.bands.at(slot).stats.refused.add(1);
                    }
                }
            }
        }
    }

    /// Frames that begin to wait before a band's bottleneck go to a row of its own: a slow band would keep what others have
    /// left from being used again, a ring's blocks most of all, which go back in their order.
    fn move_queued(&mut self) {
        if !self.bands.are_several() {
            return;
        }
        for (slot, band) in self.bands.all() {
            for frame in band.pipeline.take_queued() {
                let moved = self.arena.move_to_queue(slot, frame.place, frame.record_bytes as usize);
                frame.place = moved.unwrap_or(frame.place);
            }
        }
    }

    /// Whether the first frame may go when it is sent again: where the port is full, the kernel says the same as where it
    /// cannot cut a super-frame.
    fn is_busy(&mut self, error: &io::Error, now: Ns) -> bool {
        let first = match self.outbox.front() {
            Some((_, frame)) => *frame,
            None => return false,
        };
        matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS))
            && now.saturating_sub(first.due) < STUCK_NS
            && !packet::is_opaque(self.arena.bytes(first.place, first.record_bytes as usize))
    }

    fn sent(&mut self, count: usize, now: Ns) {
        for _ in 0..count {
            if let Some((slot, frame)) = self.forget_first() {
                let stats = &self.bands.at(slot).stats;
                stats.sent.add(1);
                stats.sent_bytes.add(u64::from(frame.record_bytes) - packet::VNET as u64);
                let late = now.saturating_sub(frame.due);
                stats.late(late);
                self.realtime.frame_was_late(late);
            }
        }
    }

    fn forget_first(&mut self) -> Option<(usize, Frame)> {
        let (slot, frame) = self.outbox.pop_front()?;
        self.arena.release(frame.place);
        Some((slot, frame))
    }

    fn note(&mut self, clock: &dyn Clock) {
        let outbox = &self.outbox;
        for (slot, band) in self.bands.all() {
            let leaving = outbox.iter().filter(|(other, _)| *other == slot).count();
            band.stats.queued.set((band.pipeline.pending() + leaving) as u64);
        }
        let now = clock.now();
        if now - self.checked >= IDLE_NS {
            self.checked = now;
            let drops = self.receiver.kernel_drops(&mut self.arena);
            self.bands.rest_stats().limit.add(drops);
            if self.outbox.is_empty() {
                let left = self.bands.forget_left();
                left.into_iter().for_each(|slot| self.arena.forget_queue(slot));
            }
            if !self.receiver.done.is_empty() {
                self.shared.done.lock().expect("no thread panics").append(&mut self.receiver.done);
            }
        }
        if self.realtime.ends(now) {
            self.realtime_change = self.realtime.renew(now, clock.worked());
        }
    }

    /// How to wait for the next frame to come or to leave, whichever is first.
    fn pause(&mut self, busy: bool, clock: &dyn Clock) -> Wait {
        let ahead = self.bands.next_due().map(|due| due.saturating_sub(clock.now()));
        match pause(ahead, busy, self.shortest_delay_ns, self.sleeps) {
            Pause::None => Wait::None,
            Pause::Spin(ns) => match lull(self.shortest_delay_ns) {
                Some(nap) if !self.spins.allows(clock.now(), ns) => {
                    self.realtime.frames_are_dense();
                    Wait::Sleep(nap)
                }
                _ => Wait::Spin(ns),
            },
            Pause::Sleep(ns) => Wait::Sleep(ns),
            Pause::Listen(ns) => {
                let ns = self.next_order_due().map_or(ns, |due| ns.min(due.saturating_sub(clock.now())));
                match self.receiver.descriptor(&mut self.arena) {
                    Some(fd) => Wait::Listen(fd, ns),
                    None => Wait::Sleep(ns.min(self.receiver.look_ns(self.earliest_ns, &mut self.arena))),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
