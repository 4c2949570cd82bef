//! What hears a port. One ear takes over from another at an instant that both know, by the stamp that the kernel gives a
//! frame once for all who hear it: none is missed, none comes twice.

use std::io;

use crate::arena::Arena;
use crate::calls::Calls;
use crate::frame::Ns;
use crate::port::Received;
use crate::ring::Ring;
use crate::settings::Settings;
use crate::sys;

/// How often we look while one ear takes over from another.
const CHANGING_LOOK_NS: Ns = 500_000;
/// With calls, the last frame that came before a change is seen within this.
const SETTLE_NS: Ns = 1_000_000;
/// A frame that a new ear heard before its time is found within this; the clock by which that is told may be set later.
const DOUBTFUL_NS: Ns = 1_000_000_000;

/// Something that hears a port, or will.
pub enum Ear {
    Calls(Calls),
    Ring(Ring),
}

impl Ear {
    /// Hears what comes in at the interface, from here on.
    pub fn hear(&self, index: i32) -> io::Result<()> {
        match self {
            Ear::Calls(calls) => calls.hear(index),
            Ear::Ring(ring) => ring.hear(index),
        }
    }
}

/// An ear at work. A ring is kept in the arena, with the frames that wait in it, by its number.
enum Hearing {
    Calls(Calls),
    Ring(usize),
}

/// Another ear takes over with the frames stamped `from` and later; `since` is when that was asked for.
struct Change {
    to: Hearing,
    from: Ns,
    since: Ns,
}

/// What hears a port now, and what will.
pub struct Ears {
    now: Hearing,
    /// Frames stamped before `from` were another's to hear, which we may meet until `doubtful`.
    from: Ns,
    doubtful: Ns,
    change: Option<Change>,
    /// Rings that are done but for the frames in them.
    old: Vec<usize>,
    /// What is not needed any more. To forget it takes a while, which another thread is to spend.
    pub done: Vec<Ear>,
    drops: u64,
}

impl Ears {
    pub fn new(ear: Ear, arena: &mut Arena) -> Ears {
        Ears {
            now: hearing(ear, arena),
            from: 0,
            doubtful: 0,
            change: None,
            old: Vec::new(),
            done: Vec::new(),
            drops: 0,
        }
    }

    /// Another ear, which hears already, takes over with the next frame that comes in.
    pub fn change(&mut self, ear: Ear, arena: &mut Arena) {
        let (from, since) = (sys::clock(sys::CLOCK_REALTIME), sys::now());
        self.change = Some(Change { to: hearing(ear, arena), from, since });
    }

    /// Whether one is just taking over.
    pub fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// The descriptor to wait for; None where a wait would end at once, as a ring's does while frames are in it, or would
    /// not end in time.
    pub fn descriptor(&self, arena: &mut Arena) -> Option<i32> {
        match &self.now {
            _ if self.is_changing() => None,
            Hearing::Calls(calls) => Some(calls.descriptor()),
            Hearing::Ring(number) => {
                let ring = arena.ring(*number);
                (ring.inside() == 0).then_some(ring.descriptor())
            }
        }
    }

    /// How often to look for frames where there is no descriptor to wait for.
    pub fn look_ns(&self, settings: &Settings, arena: &mut Arena) -> Ns {
        match self.now {
            Hearing::Ring(number) if !self.is_changing() => arena.ring(number).size().look_ns(settings, sys::tick_ns()),
            _ => CHANGING_LOOK_NS,
        }
    }

    /// Frames that the kernel had no room for since the last call.
    pub fn kernel_drops(&mut self, arena: &mut Arena) -> u64 {
        let done = &mut self.done;
        self.old.retain(|&number| {
            let empty = arena.take_empty_ring(number);
            let kept = empty.is_none();
            done.extend(empty.map(Ear::Ring));
            kept
        });
        std::mem::take(&mut self.drops) + kernel_drops(&self.now, arena)
    }

    /// Takes what is there, without waiting.
    pub fn receive(&mut self, arena: &mut Arena) -> io::Result<Received> {
        // Before we look: what is shown while we are kept from going on is for the next time.
        let now = sys::now();
        let mut out = match &mut self.now {
            Hearing::Calls(calls) => calls.receive(arena)?,
            Hearing::Ring(number) => {
                let mut out = arena.ring(*number).receive();
                out.arrivals.iter_mut().for_each(|a| a.place = Arena::in_ring(*number, a.place));
                out
            }
        };
        if now > self.doubtful {
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
            self.take_over(arena, now);
        }
        Ok(out)
    }

    /// The other ear takes over if, when we looked last, all that came before it must have been shown.
    fn take_over(&mut self, arena: &mut Arena, looked: Ns) {
        let settle = match self.now {
            Hearing::Calls(_) => SETTLE_NS,
            Hearing::Ring(number) => arena.ring(number).size().shown_ns(sys::tick_ns()),
        };
        if self.change.as_ref().map_or(true, |change| looked < change.since + settle) {
            return;
        }
        if let Some(change) = self.change.take() {
            self.drops += kernel_drops(&self.now, arena);
            match std::mem::replace(&mut self.now, change.to) {
                Hearing::Calls(calls) => self.done.push(Ear::Calls(calls)),
                Hearing::Ring(number) => {
                    // Should that fail it fills up, and no more than that.
                    let _ = arena.ring(number).mute();
                    self.old.push(number);
                }
            }
            (self.from, self.doubtful) = (change.from, looked + DOUBTFUL_NS);
        }
    }
}

fn hearing(ear: Ear, arena: &mut Arena) -> Hearing {
    match ear {
        Ear::Calls(calls) => Hearing::Calls(calls),
        Ear::Ring(ring) => Hearing::Ring(arena.add_ring(ring)),
    }
}

fn kernel_drops(hearing: &Hearing, arena: &mut Arena) -> u64 {
    match hearing {
        Hearing::Calls(calls) => calls.kernel_drops(),
        Hearing::Ring(number) => arena.ring(*number).kernel_drops(),
    }
}
