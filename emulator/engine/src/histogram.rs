//! Buckets of times: four to every power of two, so that each is at most a quarter wider than its lower end.

use crate::frame::Ns;

/// How many buckets there are: up to 2^42 ns, over an hour.
pub const BUCKETS: usize = 4 * 41;

/// The bucket that a time falls into; what is longer than all falls into the last.
pub fn bucket(ns: Ns) -> usize {
    if ns < 4 {
        return ns as usize;
    }
    let exponent = 63 - ns.leading_zeros() as usize;
    let quarter = (ns >> (exponent - 2)) as usize & 3;
    (4 * (exponent - 1) + quarter).min(BUCKETS - 1)
}

/// The first time that is above the bucket.
pub fn above(bucket: usize) -> Ns {
    let next = bucket + 1;
    if next < 4 {
        return next as Ns;
    }
    (4 + (next as Ns & 3)) << (next / 4 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_the_bucket_that_says_so() {
        for ns in (0..5000).chain((10..41).flat_map(|e| [(1 << e) - 1, 1 << e, (1 << e) + 1, 5 << (e - 2)])) {
            let b = bucket(ns);
            assert!(ns < above(b), "{ns}");
            assert!(b == 0 || ns >= above(b - 1), "{ns}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
