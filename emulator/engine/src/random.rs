//! Chance from a seed alone.

use crate::frame::P32;

/// xoshiro256** (Blackman, Vigna 2018), seeded by splitmix64.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Random {
        let mut x = seed;
        let mut next = || {
            x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        Random { state: [next(), next(), next(), next()] }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// True with probability `p32` / P32; draws nothing when the answer is certain.
    pub fn chance(&mut self, p32: u32) -> bool {
        match p32 {
            0 => false,
            P32 => true,
            _ => self.next_u32() < p32,
        }
    }

    /// A number in 0..bound; bound is not 0. The bias is below bound / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_seed_others() {
        let draw = |seed| (0..8).map(|_| Random::new(seed).next_u64()).collect::<Vec<_>>();
        let (mut one, mut same) = (Random::new(7), Random::new(7));
        assert!((0..100).all(|_| one.next_u64() == same.next_u64()));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn a_chance_comes_as_often_as_asked() {
        let mut random = Random::new(1);
        let hits = (0..1_000_000).filter(|_| random.chance(P32 / 10)).count();
        // Five standard deviations of a binomial distribution: 5 * sqrt(10^6 * 0.1 * 0.9).
        assert!((98_500..101_500).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| random.chance(P32) && !random.chance(0)));
    }

    #[test]
    fn below_stays_below_and_reaches_every_number() {
        let mut random = Random::new(3);
        let mut seen = [0; 7];
        (0..7000).for_each(|_| seen[random.below(7) as usize] += 1);
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
    }
}
