//! A thread and the processor: when it gets it, and how long it had it.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use crate::frame::Ns;
use crate::pacing::Sleeps;
use crate::sys::{checked, clock, wait};

/// The niceness of the threads that move frames.
const NICENESS: i32 = -10;

/// The sleeps by which a thread learns how late they end: so many, so long.
const TRIED_SLEEPS: usize = 8;
const TRIED_NS: Ns = 20_000;

/// What the kernel did not permit a direction's thread; 0 is no error.
#[derive(Debug, Default)]
pub struct Priority {
    niceness: AtomicI32,
    realtime: AtomicI32,
}

impl Priority {
    /// Lets this thread wake up when asked (no timer slack), and before others.
    pub fn raise(&self) {
        // SAFETY: the call takes numbers alone.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
        // SAFETY: the call takes numbers alone.
        let raised = checked(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) });
        self.niceness.store(errno_of(raised), Relaxed);
    }

    /// Whether this thread runs before all ordinary ones. Where that is refused, all stays as it is.
    pub fn set_realtime(&self, first: bool) {
        let (policy, sched_priority) = if first { (libc::SCHED_FIFO, 1) } else { (libc::SCHED_OTHER, 0) };
        let parameters = libc::sched_param { sched_priority };
        // SAFETY: the kernel reads one sched_param.
        let set = checked(unsafe { libc::sched_setscheduler(0, policy, &parameters) });
        if first {
            self.realtime.store(errno_of(set), Relaxed);
        }
    }

    /// What was refused, in words for people; empty where nothing was.
    pub fn refusals(&self) -> Vec<String> {
        let asked = [("nice -10", &self.niceness), ("SCHED_FIFO", &self.realtime)];
        let refused = asked.iter().map(|(what, errno)| (what, errno.load(Relaxed))).filter(|(_, errno)| *errno != 0);
        refused.map(|(what, errno)| format!("{what}: {}", reason(errno))).collect()
    }
}

fn errno_of(result: io::Result<i32>) -> i32 {
    result.err().and_then(|error| error.raw_os_error()).unwrap_or(0)
}

fn reason(errno: i32) -> String {
    match errno {
        libc::EPERM | libc::EACCES => "not permitted without CAP_SYS_NICE".to_string(),
        other => io::Error::from_raw_os_error(other).to_string(),
    }
}

/// How long this thread has worked.
pub fn worked() -> Ns {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// How late sleeps end in this thread, by a few short ones.
pub fn sleeps() -> Sleeps {
    let late = [0; TRIED_SLEEPS].map(|_: Ns| {
        let until = clock(libc::CLOCK_MONOTONIC) + TRIED_NS;
        wait(-1, 0, TRIED_NS);
        clock(libc::CLOCK_MONOTONIC).saturating_sub(until)
    });
    // During the first one, code may still come from the disk.
    Sleeps::that_ended(&late[1..])
}

/// Waits without giving the processor up.
pub fn spin(ns: Ns) {
    let until = clock(libc::CLOCK_MONOTONIC) + ns;
    while clock(libc::CLOCK_MONOTONIC) < until {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_is_told_in_words() {
        let priority = Priority::default();
        assert!(priority.refusals().is_empty());
        priority.niceness.store(libc::EACCES, Relaxed);
        priority.realtime.store(libc::EINVAL, Relaxed);
        let told = priority.refusals();
        assert_eq!(told[0], "nice -10: not permitted without CAP_SYS_NICE");
        assert!(told[1].starts_with("SCHED_FIFO: Invalid argument"));
    }
}
