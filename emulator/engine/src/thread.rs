//! A thread and the processor: when it gets it, and how long it had it.

use std::os::raw::{c_int, c_uint, c_ulong};

use crate::frame::Ns;
use crate::sys::{clock, now};

const CLOCK_THREAD_CPUTIME_ID: c_int = 3;
const SCHED_OTHER: c_int = 0;
const SCHED_FIFO: c_int = 1;
const PR_SET_TIMERSLACK: c_int = 29;

extern "C" {
    fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int;
    fn setpriority(which: c_int, who: c_uint, nice: c_int) -> c_int;
    fn sched_setscheduler(pid: c_int, policy: c_int, priority: *const c_int) -> c_int;
}

/// Lets this thread wake up when asked (no timer slack), and before others where that is permitted.
pub fn be_prompt() {
    unsafe {
        prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
        setpriority(0, 0, -10);
    }
}

/// Whether this thread runs before all ordinary ones. Where that is not permitted, all stays as it is.
pub fn go_first(first: bool) {
    let (policy, priority) = if first { (SCHED_FIFO, 1) } else { (SCHED_OTHER, 0) };
    unsafe { sched_setscheduler(0, policy, &priority) };
}

/// How long this thread has worked.
pub fn worked() -> Ns {
    clock(CLOCK_THREAD_CPUTIME_ID)
}

/// Waits without giving the processor up.
pub fn spin(ns: Ns) {
    let until = now() + ns;
    while now() < until {
        std::hint::spin_loop();
    }
}
