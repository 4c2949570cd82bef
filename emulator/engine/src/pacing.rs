//! When a direction's thread sleeps, spins, and goes before all others. Pure: times are arguments.

use crate::frame::Ns;

/// We wake up this long before a frame is due and spin for the rest: what a short sleep is late by, 99 times in 100.
pub const MARGIN_NS: Ns = 60_000;
/// A long sleep ends this early, and a short one follows: a processor that has gone to sleep itself wakes up 30 to 150 us
/// late, one that has just worked 15 to 40 us (virtual machines halt after 200 us, real ones sleep deeper with time).
const EARLY_NS: Ns = 250_000;
/// Busy, with a delay line to hide behind: sleep this long and take many frames at once.
const NAP_NS: Ns = 200_000;
/// The delay from which on that is so.
const NAP_FROM_NS: Ns = 1_000_000;
/// The part of a delay that dense traffic may be late by.
const LULL_PART: Ns = 64;
/// Idle: look for orders this often.
pub const IDLE_NS: Ns = 50_000_000;

/// How late a sleep may end on a machine whose sleeps are exact.
const EXACT_NS: Ns = 2_000;

/// How late sleeps end here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleeps {
    margin: Ns,
    early: Ns,
}

impl Sleeps {
    /// They end late, as everywhere in real time.
    pub const LATE: Sleeps = Sleeps { margin: MARGIN_NS, early: EARLY_NS };
    /// They end when they should, as in virtual time, where every turn of a spin costs more than all of a sleep.
    pub const EXACT: Sleeps = Sleeps { margin: 0, early: 0 };

    /// Which of both, when some sleeps ended so late.
    pub fn that_ended(late: &[Ns]) -> Sleeps {
        if late.iter().all(|ns| *ns <= EXACT_NS) {
            Sleeps::EXACT
        } else {
            Sleeps::LATE
        }
    }
}

/// How to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Not at all: more frames may be there.
    None,
    /// Spin for so long.
    Spin(Ns),
    /// Sleep for so long.
    Sleep(Ns),
    /// Sleep for so long, or until a frame comes in.
    Listen(Ns),
}

/// How to wait when the next frame is due in `ahead` (None: there is none). `busy`: frames just came in.
pub fn pause(ahead: Option<Ns>, busy: bool, delay_ns: Ns, sleeps: Sleeps) -> Pause {
    let ahead = ahead.unwrap_or(IDLE_NS);
    if ahead <= sleeps.margin {
        return Pause::Spin(ahead);
    }
    let most = if ahead > 2 * sleeps.early { ahead - sleeps.early } else { ahead - sleeps.margin };
    match busy {
        true if delay_ns >= NAP_FROM_NS => Pause::Sleep(most.min(NAP_NS)),
        true => Pause::None,
        false => Pause::Listen(most.min(IDLE_NS)),
    }
}

/// How long to sleep when no spin is left in the budget: what is due meanwhile is late by that, at most by this part
/// of the delay. None: a line so short is worth a processor while it is in use.
pub fn lull(delay_ns: Ns) -> Option<Ns> {
    (delay_ns >= NAP_FROM_NS).then_some((delay_ns / LULL_PART).clamp(MARGIN_NS, NAP_NS))
}

/// How long a thread may go before all others without a look at how much it worked.
const TERM_NS: Ns = 10_000_000;

/// What is later than this needs more of the processor than it has.
const LATE_NS: Ns = 2_000_000;

/// Keeps a thread that goes before all others from being a burden: it may for as long as it works less than half of
/// the time, and three quarters while frames are late. Whoever waits for a processor waits a term at most, and a full
/// spin is never before others. Where frames follow one another closely it does so only while they are late: to be
/// interrupted for each of them costs others more than it gains.
#[derive(Default)]
pub struct RealtimeBudget {
    held: bool,
    since: Ns,
    worked: Ns,
    dense: bool,
    late: bool,
}

impl RealtimeBudget {
    /// Frames follow one another too closely to be waited for one by one.
    pub fn frames_are_dense(&mut self) {
        self.dense = true;
    }

    /// A frame left so long after it was due.
    pub fn frame_was_late(&mut self, ns: Ns) {
        self.late |= ns > LATE_NS;
    }

    /// Whether it is time for a look.
    pub fn ends(&self, now: Ns) -> bool {
        now - self.since >= TERM_NS
    }

    /// A new term, with what the thread has worked so far; whether that changes anything, and to what.
    pub fn renew(&mut self, now: Ns, worked: Ns) -> Option<bool> {
        let (busy, half) = (worked - self.worked, (now - self.since) / 2);
        let due = if self.late { busy < half + half / 2 } else { busy < half && !self.dense };
        (self.since, self.worked, self.dense, self.late) = (now, worked, false, false);
        let changed = due != self.held;
        self.held = due;
        changed.then_some(due)
    }
}

/// A thread may spin this part of the time: what a frame a millisecond needs, with some to spare.
const SPIN_PART: Ns = 10;
/// What it may have saved of that.
const SAVED_NS: Ns = 600_000;

/// Keeps a thread from spinning away what others could use: frames that follow one another closely leave together.
#[derive(Default)]
pub struct SpinBudget {
    saved: Ns,
    since: Ns,
    endless: bool,
}

impl SpinBudget {
    /// For a thread whose processor is nobody else's.
    pub fn endless() -> SpinBudget {
        SpinBudget { endless: true, ..SpinBudget::default() }
    }

    /// Whether a spin of `ns` may start now.
    pub fn allows(&mut self, now: Ns, ns: Ns) -> bool {
        self.saved = (self.saved + (now - self.since) / SPIN_PART).min(SAVED_NS);
        self.since = now;
        let may = self.saved >= ns;
        self.saved -= if may { ns } else { 0 };
        may || self.endless
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_sleeps_are_exact_one_takes_all_of_the_time() {
        assert_eq!(pause(Some(16_000_000), false, 16_000_000, Sleeps::EXACT), Pause::Listen(16_000_000));
        assert_eq!(pause(Some(1), false, 16_000_000, Sleeps::EXACT), Pause::Listen(1));
        assert_eq!(pause(Some(0), false, 16_000_000, Sleeps::EXACT), Pause::Spin(0));
    }

    #[test]
    fn one_late_sleep_suffices() {
        assert_eq!(Sleeps::that_ended(&[0, EXACT_NS]), Sleeps::EXACT);
        assert_eq!(Sleeps::that_ended(&[0, EXACT_NS + 1]), Sleeps::LATE);
    }

    #[test]
    fn a_long_sleep_is_followed_by_a_short_one_and_a_spin() {
        let (mut left, mut steps) = (16_000_000, Vec::new());
        while left > 0 {
            let step = pause(Some(left), false, left, Sleeps::LATE);
            steps.push(step);
            left -= match step {
                Pause::Listen(ns) | Pause::Spin(ns) => ns,
                other => panic!("{other:?}"),
            };
        }
        assert_eq!(steps, [Pause::Listen(15_750_000), Pause::Listen(190_000), Pause::Spin(60_000)]);
    }

    #[test]
    fn never_longer_than_until_the_next_frame_and_never_a_spin_beyond_the_margin() {
        for ahead in (0..2_000_000).step_by(777) {
            for busy in [false, true] {
                match pause(Some(ahead), busy, 5_000_000, Sleeps::LATE) {
                    Pause::Spin(ns) => assert!(ns == ahead && ns <= MARGIN_NS),
                    Pause::Sleep(ns) | Pause::Listen(ns) => assert!(ns > 0 && ns + MARGIN_NS <= ahead),
                    Pause::None => panic!("a delay line to hide behind"),
                }
            }
        }
    }

    #[test]
    fn a_short_line_in_use_does_not_sleep_and_an_empty_one_listens() {
        assert_eq!(pause(Some(900_000), true, 900_000, Sleeps::LATE), Pause::None);
        assert_eq!(pause(Some(5_000_000), true, 5_000_000, Sleeps::LATE), Pause::Sleep(NAP_NS));
        assert!(matches!(pause(None, false, 0, Sleeps::LATE), Pause::Listen(_)));
    }

    #[test]
    fn whoever_works_more_than_half_of_the_time_goes_before_nobody() {
        let mut realtime = RealtimeBudget::default();
        assert!(realtime.ends(TERM_NS) && !realtime.ends(TERM_NS - 1));
        assert_eq!(realtime.renew(10, 1), Some(true));
        assert_eq!(realtime.renew(20, 5), None);
        assert_eq!(realtime.renew(30, 10), Some(false));
        assert_eq!(realtime.renew(40, 20), None);
        assert_eq!(realtime.renew(50, 24), Some(true));
    }

    #[test]
    fn whoever_has_dense_frames_goes_before_all_only_while_they_are_late() {
        let mut realtime = RealtimeBudget::default();
        realtime.frames_are_dense();
        assert_eq!(realtime.renew(10, 1), None);
        realtime.frames_are_dense();
        realtime.frame_was_late(LATE_NS + 1);
        assert_eq!(realtime.renew(20, 2), Some(true));
        realtime.frames_are_dense();
        realtime.frame_was_late(LATE_NS);
        assert_eq!(realtime.renew(30, 3), Some(false));
        assert_eq!(realtime.renew(40, 4), Some(true));
        realtime.frame_was_late(LATE_NS + 1);
        assert_eq!(realtime.renew(80, 32), None);
        realtime.frame_was_late(LATE_NS + 1);
        assert_eq!(realtime.renew(120, 64), Some(false));
    }

    #[test]
    fn dense_frames_are_late_by_a_small_part_of_their_delay() {
        assert_eq!(lull(900_000), None);
        assert_eq!(lull(1_000_000), Some(MARGIN_NS));
        assert_eq!(lull(6_400_000), Some(100_000));
        assert_eq!(lull(346_000_000), Some(NAP_NS));
    }

    #[test]
    fn a_frame_a_millisecond_may_be_spun_for_and_a_stream_of_them_may_not() {
        let mut budget = SpinBudget::default();
        assert!((1..1000).all(|ms| budget.allows(ms * 1_000_000, MARGIN_NS)));
        let spins = (0..10_000).filter(|n| budget.allows(1_000_000_000 + n * 80_000, MARGIN_NS)).count() as u64;
        assert!((1000..1500).contains(&spins) && spins * MARGIN_NS < 800_000_000 / 8, "{spins}");
        let mut endless = SpinBudget::endless();
        assert!((1..1000).all(|n| endless.allows(n * 80_000, MARGIN_NS)));
    }
}
