//! Memory that is taken when it is first touched, or before.

use std::ffi::c_void;
use std::io;
use std::os::raw::c_int;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

const PROT_READ_WRITE: c_int = 3;
const MAP_PRIVATE_ANONYMOUS_NORESERVE: c_int = 0x02 | 0x20 | 0x4000;
const MADV_DONTNEED: c_int = 4;
const MADV_HUGEPAGE: c_int = 14;
const MADV_POPULATE_WRITE: c_int = 23;
const PAGE: usize = 4096;
const PIECE: usize = 4 << 20;

extern "C" {
    fn mmap(at: *mut c_void, len: usize, prot: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void;
    fn munmap(at: *mut c_void, len: usize) -> c_int;
    fn madvise(at: *mut c_void, len: usize, advice: c_int) -> c_int;
}

/// Address space that takes memory only when it is touched.
pub struct Mapping {
    pub base: *mut u8,
    pub len: usize,
}

// The mapping is plain memory; who may touch which part of it is the arena's business.
unsafe impl Send for Mapping {}
unsafe impl Sync for Mapping {}

impl Mapping {
    pub fn new(len: usize) -> io::Result<Mapping> {
        let flags = MAP_PRIVATE_ANONYMOUS_NORESERVE;
        let base = unsafe { mmap(std::ptr::null_mut(), len, PROT_READ_WRITE, flags, -1, 0) };
        if base as isize == -1 {
            return Err(io::Error::last_os_error());
        }
        unsafe { madvise(base, len, MADV_HUGEPAGE) };
        Ok(Mapping { base: base.cast(), len })
    }

    /// Takes memory for a part now instead of at its first use; what is in it stays.
    ///
    /// A piece at a time: the kernel holds the whole process' address space meanwhile, and other threads may need to
    /// allocate.
    pub fn prefault(&self, from: usize, to: usize) -> io::Result<()> {
        (from..to).step_by(PIECE).try_for_each(|at| self.prefault_piece(at, to.min(at + PIECE)))
    }

    fn prefault_piece(&self, from: usize, to: usize) -> io::Result<()> {
        let at = unsafe { self.base.add(from) };
        if unsafe { madvise(at.cast(), to - from, MADV_POPULATE_WRITE) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::InvalidInput {
            return Err(error);
        }
        // A kernel before 5.14: touch every page, without changing it.
        for page in (0..to - from).step_by(PAGE) {
            unsafe { (*at.add(page).cast::<AtomicU8>()).fetch_or(0, Relaxed) };
        }
        Ok(())
    }

    /// Gives the memory of a part back; it reads as zero from then on.
    pub fn forget(&self, from: usize, len: usize) {
        unsafe { madvise(self.base.add(from).cast(), len, MADV_DONTNEED) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        unsafe { munmap(self.base.cast(), self.len) };
    }
}
