//! Frames that wait where the kernel put them: a ring of blocks shared with it (TPACKET_V3,
//! include/uapi/linux/if_packet.h). One copy less than with a call, and that one is done by whoever brings the frame. A
//! block goes back when the last of its frames is gone. The kernel shows a block when it is full, or some time after its
//! first frame: this is for delays that hide that.

use std::ffi::c_void;
use std::io;
use std::os::raw::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::arena::MAX_RECORD;
use crate::frame::Ns;
use crate::packet::{insert_vlan, VLAN_BYTES, VNET};
use crate::port::{hear, monotonic, port_socket, tag, Arrival, Received, MIN_FRAME};
use crate::ringsize::{Size, SMALLEST_BLOCK};
use crate::sys::*;

const PACKET_RX_RING: c_int = 5;
const PACKET_VERSION: c_int = 10;
const PACKET_RESERVE: c_int = 12;
const SO_ATTACH_FILTER: c_int = 26;
const TPACKET_V3: i32 = 2;
const OF_KERNEL: u32 = 0;
const OF_USER: u32 = 1;
const SHARED_READ_WRITE: (c_int, c_int) = (3, 1);

/// Frames are handed on in such portions, so that those that are due need not wait.
const PORTION: usize = 64;

extern "C" {
    fn mmap(at: *mut c_void, len: usize, prot: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void;
    fn munmap(at: *mut c_void, len: usize) -> c_int;
}

#[repr(C)]
struct Request {
    block_size: u32,
    block_nr: u32,
    frame_size: u32,
    frame_nr: u32,
    retire_ms: u32,
    private: u32,
    features: u32,
}

#[repr(C)]
struct Filter {
    len: u16,
    program: *const [u16; 4],
}

/// A port that is heard, and the frames of it that have not left yet.
pub struct Ring {
    fd: Fd,
    base: *mut u8,
    size: Size,
    /// Frames that have not left, by block; one more while the block is being read.
    live: Vec<u32>,
    inside: usize,
    block: usize,
    /// Where the next frame of the block stands, and how many there are still.
    cursor: Option<(usize, u32)>,
}

// The memory is this ring's alone, and the kernel's by turns.
unsafe impl Send for Ring {}

impl Ring {
    /// Takes the memory; hears nothing yet. None where the kernel has no memory in blocks of that size.
    pub fn new(size: Size) -> io::Result<Option<Ring>> {
        let request = Request {
            block_size: size.block_bytes as u32,
            block_nr: size.blocks as u32,
            frame_size: SMALLEST_BLOCK as u32,
            frame_nr: (size.bytes() / SMALLEST_BLOCK) as u32,
            retire_ms: size.retire_ms as u32,
            private: 0,
            features: 0,
        };
        let options = [
            (SOL_PACKET, PACKET_VERSION, TPACKET_V3),
            (SOL_PACKET, PACKET_IGNORE_OUTGOING, 1),
            (SOL_PACKET, PACKET_RESERVE, VLAN_BYTES as i32),
            // Else each socket that hears a frame stamps it for itself, and no change of ears is without a gap.
            (SOL_SOCKET, SO_TIMESTAMPNS, 1),
        ];
        let fd = port_socket(&options)?;
        match set_option(&fd, SOL_PACKET, PACKET_RX_RING, &request) {
            Err(error) if error.raw_os_error() == Some(ENOMEM) => return Ok(None),
            done => done?,
        }
        let (prot, flags) = SHARED_READ_WRITE;
        let base = unsafe { mmap(null_mut(), size.bytes() as usize, prot, flags, fd.0, 0) };
        if base as isize == -1 {
            return Err(io::Error::last_os_error());
        }
        let (base, live) = (base.cast(), vec![0; size.blocks as usize]);
        Ok(Some(Ring { fd, base, size, live, inside: 0, block: 0, cursor: None }))
    }

    /// Hears what comes in at the interface, from here on.
    pub fn hear(&self, index: i32) -> io::Result<()> {
        hear(&self.fd, index)
    }

    pub fn size(&self) -> Size {
        self.size
    }

    pub fn descriptor(&self) -> i32 {
        self.fd.0
    }

    /// Frames that the kernel had no room for since the last call.
    pub fn kernel_drops(&self) -> u64 {
        u64::from(packet_drops(&self.fd))
    }

    /// How many frames have not left.
    pub fn inside(&self) -> usize {
        self.inside
    }

    /// Hears nothing any more; what has come in stays until it is released.
    pub fn mute(&self) -> io::Result<()> {
        let drop_all = [6_u16, 0, 0, 0]; // BPF_RET | BPF_K, 0
        set_option(&self.fd, SOL_SOCKET, SO_ATTACH_FILTER, &Filter { len: 1, program: &drop_all })
    }

    pub fn pointer(&self, at: u64) -> *mut u8 {
        assert!(at < self.size.bytes());
        unsafe { self.base.add(at as usize) }
    }

    /// The record at `at` is gone.
    pub fn release(&mut self, at: u64) {
        self.inside -= 1;
        self.leave((at / self.size.block_bytes) as usize);
    }

    fn leave(&mut self, block: usize) {
        self.live[block] -= 1;
        if self.live[block] == 0 {
            self.status(block).store(OF_KERNEL, Ordering::Release);
        }
    }

    fn status(&self, block: usize) -> &AtomicU32 {
        unsafe { &*self.base.add(block * self.size.block_bytes as usize + 8).cast() }
    }

    fn u32_at(&self, at: usize) -> u32 {
        unsafe { self.base.add(at).cast::<u32>().read() }
    }

    /// Takes what the kernel shows. Places are offsets in this ring.
    pub fn receive(&mut self) -> Received {
        let mut out = Received::default();
        let clocks = (clock(CLOCK_REALTIME), now());
        while out.arrivals.len() < PORTION {
            let start = self.block * self.size.block_bytes as usize;
            let (at, left) = match self.cursor {
                Some(cursor) => cursor,
                None if self.live[self.block] == 0
                    && self.status(self.block).load(Ordering::Acquire) & OF_USER != 0 =>
                {
                    self.live[self.block] = 1;
                    (start + self.u32_at(start + 16) as usize, self.u32_at(start + 12))
                }
                None => {
                    if out.arrivals.is_empty() {
                        // A port that went down says so until it is asked, and keeps us from waiting.
                        take_error(&self.fd);
                    }
                    return out;
                }
            };
            if left == 0 {
                self.cursor = None;
                self.leave(self.block);
                self.block = (self.block + 1) % self.live.len();
                continue;
            }
            self.cursor = Some((at + self.u32_at(at) as usize, left - 1));
            match self.arrival(at, clocks) {
                Some(arrival) => out.arrivals.push(arrival),
                None => out.no_room += 1,
            }
        }
        out.more = true;
        out
    }

    /// The frame whose struct tpacket3_hdr is at `at`: next, sec, nsec, snaplen, len, status (u32), mac, net (u16),
    /// rxhash, vlan_tci (u32), vlan_tpid (u16).
    fn arrival(&mut self, at: usize, clocks: (Ns, Ns)) -> Option<Arrival> {
        let (kept, whole, status) =
            (self.u32_at(at + 12) as usize, self.u32_at(at + 16) as usize, self.u32_at(at + 20));
        if kept < whole || kept < MIN_FRAME || kept + VNET + VLAN_BYTES > MAX_RECORD {
            return None;
        }
        let mac = (self.u32_at(at + 24) & 0xFFFF) as usize;
        let stamp = u64::from(self.u32_at(at + 4)) * 1_000_000_000 + u64::from(self.u32_at(at + 8));
        let (mut place, mut len) = (at + mac - VNET, VNET + kept);
        if let Some((tpid, tci)) = tag(status, self.u32_at(at + 32) as u16, self.u32_at(at + 36) as u16) {
            place -= VLAN_BYTES;
            len += VLAN_BYTES;
            let room = unsafe { std::slice::from_raw_parts_mut(self.base.add(place), len) };
            insert_vlan(room, tpid, tci);
        }
        self.live[self.block] += 1;
        self.inside += 1;
        Some(Arrival { place: place as u64, len, at: monotonic(stamp, clocks), stamp })
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        unsafe { munmap(self.base.cast(), self.size.bytes() as usize) };
    }
}
