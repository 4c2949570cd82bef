//! Which packets chance loses: evenly, by Gilbert and Elliott's two states, or by four (sch_netem.c, loss_event).

use crate::frame::P32;
use crate::random::Random;
use crate::settings::{FourState, GilbertElliott, Settings};

/// Where a packet stands in the four-state model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    ReceivedInGap,
    ReceivedInBurst,
    LostInBurst,
    LostInGap,
}

/// The state of one flow's model of loss.
#[derive(Default)]
pub struct LossModel {
    bad: bool,
    place: Place,
}

impl LossModel {
    /// Whether the next packet is lost.
    pub fn loses(&mut self, settings: &Settings, random: &mut Random) -> bool {
        match (settings.gemodel, settings.four_state) {
            (Some(model), _) => self.gilbert_elliott(model, random),
            (None, Some(model)) => self.four_state(model, random),
            (None, None) => random.chance(settings.loss_p32),
        }
    }

    fn gilbert_elliott(&mut self, model: GilbertElliott, random: &mut Random) -> bool {
        if self.bad {
            self.bad = !random.chance(model.r);
            random.chance(P32 - model.h)
        } else {
            self.bad = random.chance(model.p);
            random.chance(model.k1)
        }
    }

    fn four_state(&mut self, model: FourState, random: &mut Random) -> bool {
        let dice = u64::from(random.next_u32());
        let below = |parts: &[u32]| dice < parts.iter().map(|&part| u64::from(part)).sum();
        self.place = match self.place {
            Place::ReceivedInGap if below(&[model.p14]) => Place::LostInGap,
            Place::ReceivedInGap if below(&[model.p14, model.p13]) => Place::LostInBurst,
            Place::ReceivedInGap => Place::ReceivedInGap,
            Place::ReceivedInBurst if below(&[model.p23]) => Place::LostInBurst,
            Place::ReceivedInBurst => Place::ReceivedInBurst,
            Place::LostInBurst if below(&[model.p32]) => Place::ReceivedInBurst,
            Place::LostInBurst if below(&[model.p32, model.p31]) => Place::ReceivedInGap,
            Place::LostInBurst => Place::LostInBurst,
            Place::LostInGap => Place::ReceivedInGap,
        };
        matches!(self.place, Place::LostInBurst | Place::LostInGap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERCENT: u32 = P32 / 100;

    fn lost(settings: &Settings, count: usize) -> Vec<bool> {
        let (mut model, mut random) = (LossModel::default(), Random::new(11));
        (0..count).map(|_| model.loses(settings, &mut random)).collect()
    }

    fn share(lost: &[bool]) -> f64 {
        lost.iter().filter(|&&lost| lost).count() as f64 / lost.len() as f64
    }

    fn mean_burst(lost: &[bool]) -> f64 {
        let starts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        lost.iter().filter(|&&lost| lost).count() as f64 / starts as f64
    }

    #[test]
    fn gilbert_elliott_loses_in_bursts() {
        // Bad for 1/r = 5 packets on average, p/(p+r) of the time; all is lost while bad.
        let model = GilbertElliott { p: PERCENT, r: 20 * PERCENT, h: 0, k1: 0 };
        let lost = lost(&Settings { gemodel: Some(model), ..Settings::default() }, 1_000_000);
        assert!((share(&lost) - 1.0 / 21.0).abs() < 0.003);
        assert!((mean_burst(&lost) - 5.0).abs() < 0.2);
    }

    #[test]
    fn netems_h_is_what_is_kept_while_bad() {
        let model = GilbertElliott { p: P32, r: 0, h: P32, k1: 0 };
        assert_eq!(share(&lost(&Settings { gemodel: Some(model), ..Settings::default() }, 1000)), 0.0);
    }

    #[test]
    fn four_states_lose_alone_in_gaps_and_together_in_bursts() {
        let alone = FourState { p13: 0, p31: P32, p32: 0, p23: 0, p14: 10 * PERCENT };
        let losses = lost(&Settings { four_state: Some(alone), ..Settings::default() }, 1_000_000);
        // One in eleven: a loss is always followed by a packet that arrives.
        assert!((share(&losses) - 0.1 / 1.1).abs() < 0.002);
        assert!(losses.windows(2).all(|pair| pair != [true, true]));
        let bursts = FourState { p13: 2 * PERCENT, p31: 25 * PERCENT, p32: 25 * PERCENT, p23: 50 * PERCENT, p14: 0 };
        let losses = lost(&Settings { four_state: Some(bursts), ..Settings::default() }, 1_000_000);
        // Stationary: s1 p13 = s3 p31 and s2 p23 = s3 p32, so (s1, s2, s3) = (12.5, 0.5, 1) / 14.
        assert!((share(&losses) - 1.0 / 14.0).abs() < 0.003, "{}", share(&losses));
        assert!((mean_burst(&losses) - 2.0).abs() < 0.05);
    }

    #[test]
    fn probabilities_that_add_up_to_more_than_one_do_not_wrap() {
        let both = FourState { p13: P32, p31: P32, p32: P32, p23: P32, p14: P32 };
        assert!((share(&lost(&Settings { four_state: Some(both), ..Settings::default() }, 1000)) - 0.5).abs() < 0.01);
    }
}
