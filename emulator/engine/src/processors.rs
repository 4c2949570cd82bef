//! Which processors a thread may have: one for itself, where there are enough, or any but that which is taken just now.

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::size_of;
use std::os::unix::io::AsRawFd;
use std::path::Path;

use crate::sys::affinity;

/// As many as the C library's cpu_set_t has.
const MOST: usize = libc::CPU_SETSIZE as usize;
const WORDS: usize = MOST / 64;

/// A set of processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processors([u64; WORDS]);

impl Processors {
    /// Those of these numbers.
    pub fn of(numbers: &[usize]) -> Processors {
        let mut set = Processors::default();
        numbers.iter().filter(|&&n| n < MOST).for_each(|n| set.0[n / 64] |= 1 << (n % 64));
        set
    }

    /// What the thread of this id may have; 0: the one that asks. Empty where that cannot be told.
    pub fn allowed(thread: i32) -> Processors {
        let (found, mut set) = (affinity(thread), Processors::default());
        for number in 0..MOST {
            // SAFETY: the number is below CPU_SETSIZE.
            let has = unsafe { libc::CPU_ISSET(number, &found) };
            set.0[number / 64] |= u64::from(has) << (number % 64);
        }
        set
    }

    /// The thread of this id may have these only. Where that cannot be, all stays as it is.
    pub fn allow(self, thread: i32) {
        // SAFETY: the kernel reads a set of bits as long as cpu_set_t.
        unsafe { libc::sched_setaffinity(thread, size_of::<Processors>(), self.0.as_ptr().cast()) };
    }

    /// Those that are not in the other set.
    pub fn without(mut self, other: Processors) -> Processors {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine &= !theirs);
        self
    }

    /// Their numbers.
    pub fn numbers(self) -> Vec<usize> {
        (0..MOST).filter(|n| self.0[n / 64] >> (n % 64) & 1 == 1).collect()
    }
}

/// The id of this thread.
pub fn thread_id() -> i32 {
    // SAFETY: the call takes no arguments and cannot fail.
    unsafe { libc::gettid() }
}

/// Does some work that the kernel does not interrupt, on a processor that these threads keep away from meanwhile; 0 is no
/// thread.
pub fn apart<T>(threads: &[i32], work: impl FnOnce() -> T) -> T {
    // SAFETY: the call takes no arguments.
    let here = Processors::of(&[unsafe { libc::sched_getcpu() } as usize]);
    let mine = Processors::allowed(0);
    let before: Vec<_> = threads.iter().filter(|&&id| id > 0).map(|&id| (id, Processors::allowed(id))).collect();
    if before.iter().any(|(_, theirs)| theirs.without(here) == Processors::default()) {
        return work();
    }
    here.allow(0);
    before.iter().for_each(|(thread, theirs)| theirs.without(here).allow(*thread));
    let done = work();
    before.iter().for_each(|(thread, theirs)| theirs.allow(*thread));
    mine.allow(0);
    done
}

/// A processor for each of two threads of this process: of those `allowed`, but for the first `spare`, which are for all
/// others, what nobody else has claimed. None where there are too few.
pub fn choose(allowed: Processors, spare: usize, mut claim: impl FnMut(usize) -> bool) -> Option<[usize; 2]> {
    let numbers = allowed.numbers();
    if numbers.len() < spare + 2 {
        return None;
    }
    let mut free = numbers.into_iter().skip(spare).filter(|&number| claim(number));
    Some([free.next()?, free.next()?])
}

/// Who has which processor, told to all engines of a folder: processor n is that one's who locks byte n of a file. With a
/// process its claims go.
pub struct Claims(File);

impl Claims {
    /// The claims of all engines that open this file.
    pub fn open(path: &Path) -> io::Result<Claims> {
        OpenOptions::new().write(true).create(true).truncate(false).open(path).map(Claims)
    }

    /// Whether it is ours now.
    pub fn claim(&self, number: usize) -> bool {
        let lock = libc::flock {
            l_type: libc::F_WRLCK as i16,
            l_whence: libc::SEEK_SET as i16,
            l_start: number as libc::off_t,
            l_len: 1,
            l_pid: 0,
        };
        // SAFETY: the kernel reads one flock.
        unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_OFD_SETLK, &lock) == 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_knows_its_numbers() {
        let set = Processors::of(&[0, 63, 64, 1023, 5000]);
        assert_eq!(set.numbers(), [0, 63, 64, 1023]);
        assert_eq!(set.without(Processors::of(&[63])).numbers(), [0, 64, 1023]);
    }

    #[test]
    fn processors_are_chosen_where_others_keep_enough() {
        let four = Processors::of(&[0, 2, 4, 6]);
        assert_eq!(choose(four, 2, |_| true), Some([4, 6]));
        assert_eq!(choose(four, 2, |n| n != 6), None);
        assert_eq!(choose(four, 3, |_| panic!("too few to ask for")), None);
        assert_eq!(choose(Processors::of(&[0, 1]), 0, |_| true), Some([0, 1]));
    }

    #[test]
    fn what_one_has_claimed_no_other_can_until_it_is_gone() {
        let path = std::env::temp_dir().join(format!("longhaul-claims-{}", std::process::id()));
        let (one, other) = (Claims::open(&path).unwrap(), Claims::open(&path).unwrap());
        assert!(one.claim(3) && one.claim(3) && !other.claim(3) && other.claim(2));
        drop(one);
        assert!(other.claim(3));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn work_is_done_apart_and_all_is_as_before() {
        let (before, me) = (Processors::allowed(0), thread_id());
        assert_eq!(apart(&[], || Processors::allowed(0)).numbers().len(), 1);
        // One that could go nowhere else is not driven away.
        assert_eq!(apart(&[me], || 7), 7);
        assert_eq!(Processors::allowed(0), before);
    }
}
