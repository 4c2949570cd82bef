//! What receives a port. One ingress takes over from another at an instant that both know, by the stamp that the kernel
//! gives a frame once for all who receive it: none is missed, none comes twice.

use std::io;

use crate::arena::Arena;
use crate::frame::Ns;
use crate::port::{Moment, Port, Received};
use crate::ring_ingress::RingIngress;
use crate::socket_ingress::SocketIngress;

/// How often we look while one ingress takes over from another.
const CHANGING_LOOK_NS: Ns = 500_000;
/// With calls, a frame that came is seen within this.
const SETTLE_NS: Ns = 1_000_000;
/// A frame that a new ingress received before its time is found within this; the clock by which that is told may be set
/// later.
const DOUBTFUL_NS: Ns = 1_000_000_000;

/// Something that receives a port, or will.
pub enum Ingress {
    Socket(SocketIngress),
    Ring(RingIngress),
}

impl Ingress {
    /// Receives what comes in at the interface, from here on.
    pub fn open(&mut self, index: i32) -> io::Result<()> {
        self.port().open(index)
    }

    fn port(&mut self) -> &mut dyn Port {
        match self {
            Ingress::Socket(socket) => socket.port(),
            Ingress::Ring(ring) => ring.port(),
        }
    }
}

/// An ingress at work. A ring is kept in the arena, with the frames that wait in it, by its number.
enum Source {
    Socket(SocketIngress),
    Ring(usize),
}

impl Source {
    fn new(ingress: Ingress, arena: &mut Arena) -> Source {
        match ingress {
            Ingress::Socket(socket) => Source::Socket(socket),
            Ingress::Ring(ring) => Source::Ring(arena.add_ring(ring)),
        }
    }

    fn port<'a>(&'a mut self, arena: &'a mut Arena) -> &'a mut dyn Port {
        match self {
            Source::Socket(socket) => socket.port(),
            Source::Ring(number) => arena.ring(*number).port(),
        }
    }
}

/// Another ingress takes over with the frames stamped `from` and later; `since` is when that was asked for.
struct Change {
    to: Source,
    from: Ns,
    since: Ns,
}

/// What receives a port now, and what will.
pub struct Receiver {
    source: Source,
    /// Frames stamped before `from` were another's to receive, which we may meet until `doubtful`.
    from: Ns,
    doubtful: Ns,
    change: Option<Change>,
    /// Rings that are done but for the frames in them.
    old: Vec<usize>,
    /// What is not needed any more. To forget it takes a while, which another thread is to spend.
    pub done: Vec<Ingress>,
    drops: u64,
    tick_ns: Ns,
}

impl Receiver {
    /// Receives with this ingress; `tick_ns` is the kernel's.
    pub fn new(ingress: Ingress, arena: &mut Arena, tick_ns: Ns) -> Receiver {
        Receiver {
            source: Source::new(ingress, arena),
            from: 0,
            doubtful: 0,
            change: None,
            old: Vec::new(),
            done: Vec::new(),
            drops: 0,
            tick_ns,
        }
    }

    /// Another ingress, which receives already, takes over with the next frame that comes in.
    pub fn change(&mut self, ingress: Ingress, arena: &mut Arena, moment: Moment) {
        self.change = Some(Change { to: Source::new(ingress, arena), from: moment.real, since: moment.now });
    }

    /// Whether one is just taking over.
    pub fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// The descriptor to wait for; None where a wait would end at once, as a ring's does while frames are in it, or would
    /// not end in time.
    pub fn descriptor(&mut self, arena: &mut Arena) -> Option<i32> {
        if self.is_changing() {
            return None;
        }
        match self.source {
            Source::Ring(number) if arena.ring(number).inside() > 0 => None,
            _ => Some(self.source.port(arena).descriptor()),
        }
    }

    /// How often to look for frames where there is no descriptor to wait for; no frame is delayed less than `earliest_ns`.
    pub fn look_ns(&self, earliest_ns: Ns, arena: &mut Arena) -> Ns {
        match self.source {
            Source::Ring(number) if !self.is_changing() => {
                arena.ring(number).geometry().look_ns(earliest_ns, self.tick_ns)
            }
            _ => CHANGING_LOOK_NS,
        }
    }

    /// Frames that the kernel had no room for since the last call.
    pub fn kernel_drops(&mut self, arena: &mut Arena) -> u64 {
        let done = &mut self.done;
        self.old.retain(|&number| {
            let empty = arena.take_empty_ring(number);
            let kept = empty.is_none();
            done.extend(empty.map(Ingress::Ring));
            kept
        });
        std::mem::take(&mut self.drops) + self.source.port(arena).drops()
    }

    /// Takes what is there, without waiting. `moment` is before we look: what is shown while we are kept from going on is
    /// for the next time.
    pub fn receive(&mut self, arena: &mut Arena, moment: Moment) -> io::Result<Received> {
        let mut out = match &mut self.source {
            Source::Socket(socket) => socket.receive(arena, moment)?,
            Source::Ring(number) => {
                let mut out = arena.ring(*number).receive(moment);
                out.arrivals.iter_mut().for_each(|a| a.place = Arena::in_ring(*number, a.place));
                out
            }
        };
        if moment.now > self.doubtful {
            self.from = 0;
        }
        let until = self.change.as_ref().map_or(Ns::MAX, |change| change.from);
        if self.from > 0 || until < Ns::MAX {
            let theirs = self.from..until;
            out.arrivals.retain(|arrival| {
                let ours = theirs.contains(&arrival.stamp);
                if !ours {
                    arena.release(arrival.place);
                }
                ours
            });
        }
        if out.arrivals.is_empty() {
            self.take_over(arena, moment.now);
        }
        Ok(out)
    }

    /// Within this time of its coming a frame is seen.
    pub fn settle_ns(&self, arena: &mut Arena) -> Ns {
        match self.source {
            Source::Socket(_) => SETTLE_NS,
            Source::Ring(number) => arena.ring(number).geometry().shown_ns(self.tick_ns),
        }
    }

    /// The other ingress takes over if, when we looked last, all that came before it must have been shown.
    fn take_over(&mut self, arena: &mut Arena, looked: Ns) {
        let settle = self.settle_ns(arena);
        if self.change.as_ref().map_or(true, |change| looked < change.since + settle) {
            return;
        }
        if let Some(change) = self.change.take() {
            self.drops += self.source.port(arena).drops();
            match std::mem::replace(&mut self.source, change.to) {
                Source::Socket(socket) => self.done.push(Ingress::Socket(socket)),
                Source::Ring(number) => {
                    // Should that fail it fills up, and no more than that.
                    let _ = arena.ring(number).port().mute();
                    self.old.push(number);
                }
            }
            (self.from, self.doubtful) = (change.from, looked + DOUBTFUL_NS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_port::{frame, MemoryPort, MemoryRing, STAMP};
    use crate::packet::VNET;

    const TICK: Ns = 4_000_000;
    const MS: Ns = 1_000_000;

    /// A moment so long after the first frame of a test could come in.
    fn after(ns: Ns) -> Moment {
        Moment { real: STAMP + ns, now: 1_000_000_000 + ns }
    }

    fn numbers(found: &Received, arena: &mut Arena) -> Vec<u8> {
        found.arrivals.iter().map(|a| arena.bytes(a.place, a.len)[VNET + 20]).collect()
    }

    #[test]
    fn a_ring_takes_over_from_calls_and_each_frame_is_received_once() {
        let (port, mut arena) = (MemoryPort::default(), Arena::new(8 << 20).unwrap());
        let mut receiver =
            Receiver::new(Ingress::Socket(SocketIngress::over(Box::new(port.clone()))), &mut arena, TICK);
        let (ring, mut kernel) = MemoryRing::pair(4);
        // Both receive every frame while one takes over; 3 and 4 are stamped after the change.
        for n in 0..5_u8 {
            let stamp = STAMP + u64::from(n) * 10;
            port.arrives(&frame(n, 60), stamp, None);
            kernel.put(&frame(n, 60), stamp, None);
        }
        kernel.show();
        receiver.change(Ingress::Ring(ring), &mut arena, after(25));
        let found = receiver.receive(&mut arena, after(100)).unwrap();
        assert_eq!(numbers(&found, &mut arena), [0, 1, 2]);
        assert!(receiver.receive(&mut arena, after(200)).unwrap().arrivals.is_empty());
        assert!(receiver.is_changing() && receiver.descriptor(&mut arena).is_none());
        receiver.receive(&mut arena, after(2 * MS)).unwrap();
        assert!(!receiver.is_changing() && receiver.done.len() == 1);
        let found = receiver.receive(&mut arena, after(2 * MS + 1)).unwrap();
        assert_eq!(numbers(&found, &mut arena), [3, 4]);
    }

    #[test]
    fn a_ring_that_was_replaced_stays_until_its_last_frame_has_left() {
        let (ring, mut kernel) = MemoryRing::pair(4);
        let mut arena = Arena::new(8 << 20).unwrap();
        let mut receiver = Receiver::new(Ingress::Ring(ring), &mut arena, TICK);
        kernel.put(&frame(1, 60), STAMP, None);
        kernel.show();
        let waiting = receiver.receive(&mut arena, after(10)).unwrap().arrivals;
        let port = MemoryPort::default();
        let calls = Ingress::Socket(SocketIngress::over(Box::new(port.clone())));
        receiver.change(calls, &mut arena, after(20));
        kernel.port().drops_frames(3);
        receiver.receive(&mut arena, after(30)).unwrap();
        assert!(receiver.is_changing(), "what came before is shown within some ticks");
        receiver.receive(&mut arena, after(20 * MS)).unwrap();
        assert!(!receiver.is_changing() && kernel.port().is_muted());
        port.drops_frames(2);
        assert_eq!((receiver.kernel_drops(&mut arena), receiver.done.len()), (5, 0));
        arena.release(waiting[0].place);
        assert_eq!((receiver.kernel_drops(&mut arena), receiver.done.len()), (0, 1));
    }
}
