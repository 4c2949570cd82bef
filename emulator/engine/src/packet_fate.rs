//! What chance does to each packet before it sets out: loss, ECN marks, duplicates, bits that flip. The order of the
//! questions and their sense are sch_netem's (netem_enqueue).

use crate::loss_model::LossModel;
use crate::random::Random;
use crate::settings::Settings;

/// What happens to one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    pub lost: bool,
    pub duplicated: bool,
    pub corrupted: bool,
    /// Congestion was experienced: said so instead of losing the packet.
    pub marked: bool,
}

/// The dice of one flow, and the state of its model of loss.
pub struct PacketFates {
    random: Random,
    loss: LossModel,
}

impl PacketFates {
    /// The same seed gives the same fates.
    pub fn new(seed: u64) -> PacketFates {
        PacketFates { random: Random::new(seed), loss: LossModel::default() }
    }

    /// The next packet's fate; `markable` says whether its sender speaks ECN.
    pub fn fate(&mut self, s: &Settings, markable: bool) -> Fate {
        let duplicated = self.random.chance(s.duplicate_p32);
        self.draw(s, markable, duplicated)
    }

    /// The fate of a duplicate, which netem puts through everything once more but for the duplication.
    pub fn fate_of_duplicate(&mut self, s: &Settings, markable: bool) -> Fate {
        self.draw(s, markable, false)
    }

    fn draw(&mut self, s: &Settings, markable: bool, duplicated: bool) -> Fate {
        let mut fate = Fate { duplicated, ..Fate::default() };
        if self.loss.loses(s, &mut self.random) {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::P32;

    const PERCENT: u32 = P32 / 100;

    fn fates(s: &Settings, markable: bool, count: usize) -> Vec<Fate> {
        let mut chance = PacketFates::new(11);
        (0..count).map(|_| chance.fate(s, markable)).collect()
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
}
