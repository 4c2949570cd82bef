//! The clocks, behind a trait: a direction is given them, and so works in a test at whatever time it is told.

use crate::frame::Ns;
use crate::port::Moment;
use crate::sys;
use crate::thread;

/// What a direction knows of time.
pub trait Clock {
    /// This moment by both clocks.
    fn moment(&self) -> Moment;

    /// Now, by the clock that never jumps.
    fn now(&self) -> Ns {
        self.moment().now
    }

    /// How long this thread has worked.
    fn worked(&self) -> Ns;
}

/// The kernel's clocks.
pub struct SystemClock;

impl Clock for SystemClock {
    fn moment(&self) -> Moment {
        Moment { real: sys::clock(libc::CLOCK_REALTIME), now: self.now() }
    }

    fn now(&self) -> Ns {
        sys::clock(libc::CLOCK_MONOTONIC)
    }

    fn worked(&self) -> Ns {
        thread::worked()
    }
}

/// A clock that is set by hand, for tests; nothing takes any time.
#[cfg(test)]
#[derive(Default)]
pub struct HandClock(pub std::cell::Cell<Moment>);

#[cfg(test)]
impl HandClock {
    /// Lets so much time pass.
    pub fn pass(&self, ns: Ns) {
        let Moment { real, now } = self.0.get();
        self.0.set(Moment { real: real + ns, now: now + ns });
    }
}

#[cfg(test)]
impl Clock for HandClock {
    fn moment(&self) -> Moment {
        self.0.get()
    }

    fn worked(&self) -> Ns {
        0
    }
}
