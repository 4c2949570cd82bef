//! Memory that is taken when it is first touched, or before; or that is shared with the kernel.

use std::io;
use std::os::unix::io::RawFd;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::sys::{checked, map_memory};

const PAGE: usize = 4096;
const PIECE: usize = 4 << 20;

/// Address space of `len` bytes.
pub struct Mapping {
    base: *mut u8,
    len: usize,
}

// SAFETY: the mapping is plain memory that stays where it is; who may touch which part of it is for its owner to see to
// (the arena's records, the ring's blocks).
unsafe impl Send for Mapping {}
// SAFETY: as above; the mapping's own methods change nothing but what is not used.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Address space that takes memory only when it is touched, in huge pages where there are some.
    pub fn new(len: usize) -> io::Result<Mapping> {
        let base = map_memory(len, -1)?;
        // SAFETY: the range was just mapped.
        unsafe { libc::madvise(base.cast(), len, libc::MADV_HUGEPAGE) };
        Ok(Mapping { base, len })
    }

    /// What the kernel shares by a descriptor.
    pub fn shared(fd: RawFd, len: usize) -> io::Result<Mapping> {
        Ok(Mapping { base: map_memory(len, fd)?, len })
    }

    /// How long it is.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The byte at an offset.
    pub fn pointer(&self, at: usize) -> *mut u8 {
        assert!(at < self.len);
        // SAFETY: the offset is within the mapping.
        unsafe { self.base.add(at) }
    }

    /// Takes memory for a part now instead of at its first use; what is in it stays.
    ///
    /// A piece at a time: the kernel holds the whole process' address space meanwhile, and other threads may need to
    /// allocate.
    pub fn prefault(&self, from: usize, to: usize) -> io::Result<()> {
        (from..to).step_by(PIECE).try_for_each(|at| self.prefault_piece(at, to.min(at + PIECE)))
    }

    fn prefault_piece(&self, from: usize, to: usize) -> io::Result<()> {
        assert!(from < to && to <= self.len);
        let at = self.pointer(from);
        // SAFETY: the range is within the mapping; its contents stay.
        match checked(unsafe { libc::madvise(at.cast(), to - from, libc::MADV_POPULATE_WRITE) }) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::InvalidInput => return Err(error),
            Err(_) => (),
        }
        // A kernel before 5.14: touch every page, without changing it.
        for page in (0..to - from).step_by(PAGE) {
            // SAFETY: the byte is within the mapping, and an AtomicU8 may stand at any address.
            unsafe { (*at.add(page).cast::<AtomicU8>()).fetch_or(0, Relaxed) };
        }
        Ok(())
    }

    /// Gives the memory of a part back; it reads as zero from then on.
    pub fn forget(&self, from: usize, len: usize) {
        assert!(from + len <= self.len);
        // SAFETY: the range is within the mapping, and whoever calls has nothing in it.
        unsafe { libc::madvise(self.pointer(from).cast(), len, libc::MADV_DONTNEED) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping's own, and nothing that borrows from it is left.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}
