//! One direction at work, a thread of its own: frames in at one port, through the pipeline, out at the other.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use crate::arena::Arena;
use crate::ears::{Ear, Ears};
use crate::frame::{Cause, Dropped, Frame, Impairment, Ns};
use crate::gate::Gate;
use crate::pace::{lull, rest, Patience, Privilege, Rest, IDLE_NS, MARGIN_NS};
use crate::packet;
use crate::pipeline::Pipeline;
use crate::port::{Arrival, Sender};
use crate::processors::{thread_id, Processors};
use crate::settings::Settings;
use crate::stats::Stats;
use crate::sys;
use crate::thread;

/// A port that takes no frame for so long is down.
const STUCK_NS: Ns = 20_000_000;
const SEND_BATCH: usize = 32;
/// New settings, for the frames that come in from `from` on, and what is to hear them if that changes too.
pub struct Order {
    pub settings: Settings,
    pub from: Ns,
    pub ear: Option<Ear>,
}

/// What the control thread and a direction's thread share.
#[derive(Default)]
pub struct Shared {
    pub stats: Stats,
    orders: Mutex<VecDeque<Order>>,
    /// How many orders were ever given: cheaper to look at than the queue.
    given: AtomicU64,
    /// Ears that the direction has done with.
    done: Mutex<Vec<Ear>>,
    /// The id of the direction's thread; 0 before it works.
    pub thread: AtomicI32,
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
    pub fn take_done(&self) -> Vec<Ear> {
        std::mem::take(&mut *self.done.lock().expect("no thread panics"))
    }
}

/// One direction of a lane.
pub struct Direction {
    ears: Ears,
    sender: Sender,
    pub(crate) arena: Arena,
    pub(crate) gate: Gate,
    pipeline: Pipeline,
    pub(crate) settings: Settings,
    outbox: VecDeque<Frame>,
    pub(crate) shared: Arc<Shared>,
    seen: u64,
    next: Option<Order>,
    checked: Ns,
    privilege: Privilege,
    patience: Patience,
}

impl Direction {
    /// Hears with `ear`, keeps frames in `arena` or in the ear's own ring, and speaks through the port `to`, an index.
    pub fn new(ear: Ear, to: i32, mut arena: Arena, settings: Settings, shared: Arc<Shared>) -> io::Result<Direction> {
        let seed = settings.seed.unwrap_or_else(sys::now);
        Ok(Direction {
            sender: Sender::new(to)?,
            ears: Ears::new(ear, &mut arena),
            arena,
            gate: Gate::new(seed),
            pipeline: Pipeline::new(&settings, seed ^ 0x6A09_E667_F3BC_C908),
            settings,
            outbox: VecDeque::new(),
            shared,
            seen: 0,
            next: None,
            checked: 0,
            privilege: Privilege::default(),
            patience: Patience::default(),
        })
    }

    /// Works until it is told to stop and all has left, or until the hearing port is gone; on a processor of its `own`
    /// if it has one.
    pub fn run(&mut self, own: Option<usize>) {
        thread::be_prompt();
        if let Some(own) = own {
            Processors::of(&[own]).allow(0);
            self.patience = Patience::endless();
        }
        self.shared.thread.store(thread_id(), SeqCst);
        loop {
            let stopping = self.shared.stop.load(SeqCst);
            self.take_orders();
            let busy = !stopping && self.hear();
            let blocked = self.speak();
            self.note();
            if stopping && self.pipeline.done() && self.outbox.is_empty() {
                return;
            }
            self.rest(busy, blocked);
        }
    }

    fn take_orders(&mut self) {
        let given = self.shared.given.load(SeqCst);
        while self.seen < given && !self.ears.is_changing() {
            if let Some(order) = self.next.take() {
                self.apply(&order.settings);
            }
            self.next = self.shared.orders.lock().expect("no thread panics").pop_front();
            if let Some(ear) = self.next.as_mut().and_then(|order| order.ear.take()) {
                self.ears.change(ear, &mut self.arena);
            }
            self.seen += 1;
        }
    }

    fn apply(&mut self, settings: &Settings) {
        self.pipeline.set(settings);
        self.arena.resize(settings.room_bytes);
        if settings.seed != self.settings.seed {
            self.gate = Gate::new(settings.seed.unwrap_or_else(sys::now));
        }
        self.settings = settings.clone();
    }

    /// Takes what came in; whether there was anything.
    fn hear(&mut self) -> bool {
        let received = match self.ears.receive(&mut self.arena) {
            Ok(received) => received,
            // The port went down: a pending error is told once. Whether it is gone is for the control thread to see.
            Err(_) => return false,
        };
        self.shared.stats.limit.add(received.no_room);
        let busy = received.more || !received.arrivals.is_empty();
        for arrival in received.arrivals {
            if self.next.as_ref().map_or(false, |order| arrival.at >= order.from) {
                if let Some(order) = self.next.take() {
                    self.apply(&order.settings);
                }
            }
            self.shared.stats.received.add(1);
            self.shared.stats.received_bytes.add((arrival.len - packet::VNET) as u64);
            self.admit(arrival);
        }
        busy
    }

    /// Puts a record on its way.
    pub(crate) fn push(&mut self, arrival: &Arrival, wire_bytes: u32, packets: u32) {
        let frame = Frame { place: arrival.place, record_bytes: arrival.len as u32, wire_bytes, packets, due: 0 };
        if let Err(dropped) = self.pipeline.push(frame, arrival.at) {
            self.drop_frame(dropped);
        }
    }

    fn drop_frame(&mut self, dropped: Dropped) {
        let stats = &self.shared.stats;
        let counter = match dropped.cause {
            Cause::Loss => &stats.lost,
            Cause::Buffer => &stats.buffer,
            Cause::Limit => &stats.limit,
        };
        counter.add(u64::from(dropped.frame.packets));
        self.arena.release(dropped.frame.place);
    }

    /// Sends what is due; whether the port took no more.
    fn speak(&mut self) -> bool {
        loop {
            let now = sys::now();
            while self.outbox.len() < SEND_BATCH {
                match self.pipeline.pop_due(now) {
                    Some(frame) => self.outbox.push_back(frame),
                    None => break,
                }
            }
            for dropped in self.pipeline.take_dropped() {
                self.drop_frame(dropped);
            }
            if self.outbox.is_empty() {
                return false;
            }
            let records: Vec<_> =
                self.outbox.iter().map(|f| (self.arena.pointer(f.place), f.record_bytes as usize)).collect();
            match self.sender.send(&records) {
                Ok(count) => self.sent(count, now),
                Err(error) => {
                    let busy = matches!(error.raw_os_error(), Some(sys::EAGAIN | sys::ENOBUFS));
                    let late = self.outbox.front().map_or(0, |f| now.saturating_sub(f.due));
                    if busy && late < STUCK_NS {
                        return true;
                    }
                    self.shared.stats.refused.add(1);
                    self.forget_first();
                }
            }
        }
    }

    fn sent(&mut self, count: usize, now: Ns) {
        for _ in 0..count {
            if let Some(frame) = self.forget_first() {
                let stats = &self.shared.stats;
                stats.sent.add(1);
                stats.sent_bytes.add(u64::from(frame.record_bytes) - packet::VNET as u64);
                let late = now.saturating_sub(frame.due);
                stats.late(late);
                self.privilege.frame_was_late(late);
            }
        }
    }

    fn forget_first(&mut self) -> Option<Frame> {
        let frame = self.outbox.pop_front()?;
        self.arena.release(frame.place);
        Some(frame)
    }

    fn note(&mut self) {
        let stats = &self.shared.stats;
        stats.queued.set((self.pipeline.pending() + self.outbox.len()) as u64);
        let now = sys::now();
        if now - self.checked >= IDLE_NS {
            self.checked = now;
            stats.limit.add(self.ears.kernel_drops(&mut self.arena));
            if !self.ears.done.is_empty() {
                self.shared.done.lock().expect("no thread panics").append(&mut self.ears.done);
            }
        }
        if self.privilege.ends(now) {
            if let Some(first) = self.privilege.renew(now, thread::worked()) {
                thread::go_first(first);
            }
        }
    }

    /// Waits for the next frame to come or to leave, whichever is first.
    fn rest(&mut self, busy: bool, blocked: bool) {
        if blocked {
            sys::wait(self.sender.descriptor(), sys::POLLOUT, MARGIN_NS);
            sys::wait(-1, 0, MARGIN_NS / 2);
            return;
        }
        let ahead = self.pipeline.next_due().map(|due| due.saturating_sub(sys::now()));
        match rest(ahead, busy, self.settings.delay_ns) {
            Rest::None => (),
            Rest::Spin(ns) => match lull(self.settings.delay_ns) {
                Some(nap) if !self.patience.allows(sys::now(), ns) => {
                    self.privilege.frames_are_dense();
                    sys::wait(-1, 0, nap);
                }
                _ => thread::spin(ns),
            },
            Rest::Sleep(ns) => sys::wait(-1, 0, ns),
            Rest::Listen(ns) => match self.ears.descriptor(&mut self.arena) {
                Some(fd) => sys::wait(fd, sys::POLLIN, ns),
                None => sys::wait(-1, 0, ns.min(self.ears.look_ns(&self.settings, &mut self.arena))),
            },
        }
    }
}
