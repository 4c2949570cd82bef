//! What chance does to each packet before it sets out: loss (random and Gilbert-Elliott), ECN marks, duplicates, bits
//! that flip. The order of the questions and their sense are sch_netem's (netem_enqueue, loss_gilb_ell).

use crate::frame::P32;
use crate::random::Random;
use crate::settings::{GilbertElliott, Settings};

/// What happens to one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    pub lost: bool,
    pub duplicated: bool,
    pub corrupted: bool,
    /// Congestion was experienced: said so instead of losing the packet.
    pub marked: bool,
}

/// The dice of one direction, and the state of its Gilbert-Elliott chain.
pub struct Gate {
    random: Random,
    bad: bool,
}

impl Gate {
    pub fn new(seed: u64) -> Gate {
        Gate { random: Random::new(seed), bad: false }
    }

    /// The next packet's fate; `markable` says whether its sender speaks ECN.
    pub fn fate(&mut self, s: &Settings, markable: bool) -> Fate {
        let mut fate = Fate { duplicated: self.random.chance(s.duplicate_p32), ..Fate::default() };
        if self.loses(s) {
            if s.ecn && markable {
                fate.marked = true;
            } else if fate.duplicated {
                fate.duplicated = false;
            } else {
                fate.lost = true;
            }
        }
        fate.corrupted = !fate.lost && self.random.chance(s.corrupt_p32);
        fate
    }

    /// A number in 0..bound: which bit flips.
    pub fn pick(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn loses(&mut self, s: &Settings) -> bool {
        match s.gemodel {
            Some(model) => self.gilbert_elliott(model),
            None => self.random.chance(s.loss_p32),
        }
    }

    fn gilbert_elliott(&mut self, model: GilbertElliott) -> bool {
        if self.bad {
            self.bad = !self.random.chance(model.r);
            self.random.chance(P32 - model.h)
        } else {
            self.bad = self.random.chance(model.p);
            self.random.chance(model.k1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERCENT: u32 = P32 / 100;

    fn fates(s: &Settings, markable: bool, count: usize) -> Vec<Fate> {
        let mut gate = Gate::new(11);
        (0..count).map(|_| gate.fate(s, markable)).collect()
    }

    fn share(fates: &[Fate], what: fn(&Fate) -> bool) -> f64 {
        fates.iter().filter(|f| what(f)).count() as f64 / fates.len() as f64
    }

    #[test]
    fn nothing_happens_unasked_and_everything_at_one() {
        assert!(fates(&Settings::default(), true, 1000).iter().all(|f| *f == Fate::default()));
        let all = Settings { loss_p32: P32, ..Settings::default() };
        assert!(fates(&all, true, 1000).iter().all(|f| f.lost));
    }

    #[test]
    fn loss_duplicates_and_corruption_come_as_often_as_asked() {
        let s =
            Settings { loss_p32: PERCENT, duplicate_p32: 2 * PERCENT, corrupt_p32: 3 * PERCENT, ..Settings::default() };
        let fates = fates(&s, false, 1_000_000);
        // A duplicate outlives the loss of one of the two.
        assert!((share(&fates, |f| f.lost) - 0.0098).abs() < 0.0005);
        assert!((share(&fates, |f| f.duplicated) - 0.0198).abs() < 0.0007);
        assert!((share(&fates, |f| f.corrupted) - 0.0297).abs() < 0.0009);
    }

    #[test]
    fn what_can_be_marked_is_not_lost() {
        let s = Settings { loss_p32: P32 / 2, ecn: true, ..Settings::default() };
        let (speaks, silent) = (fates(&s, true, 10_000), fates(&s, false, 10_000));
        assert_eq!(share(&speaks, |f| f.lost), 0.0);
        assert!((share(&speaks, |f| f.marked) - 0.5).abs() < 0.03);
        assert_eq!(share(&silent, |f| f.marked), 0.0);
        assert!((share(&silent, |f| f.lost) - 0.5).abs() < 0.03);
    }

    #[test]
    fn gilbert_elliott_loses_in_bursts() {
        // Bad for 1/r = 5 packets on average, p/(p+r) of the time; all is lost while bad.
        let model = GilbertElliott { p: PERCENT, r: 20 * PERCENT, h: 0, k1: 0 };
        let fates = fates(&Settings { gemodel: Some(model), ..Settings::default() }, false, 1_000_000);
        assert!((share(&fates, |f| f.lost) - 1.0 / 21.0).abs() < 0.003);
        let starts = fates.windows(2).filter(|w| !w[0].lost && w[1].lost).count();
        let lost = fates.iter().filter(|f| f.lost).count();
        assert!((lost as f64 / starts as f64 - 5.0).abs() < 0.2);
    }

    #[test]
    fn netems_h_is_what_is_kept_while_bad() {
        let model = GilbertElliott { p: P32, r: 0, h: P32, k1: 0 };
        let kept = fates(&Settings { gemodel: Some(model), ..Settings::default() }, false, 1000);
        assert!(kept.iter().all(|f| !f.lost));
    }
}
