//! A port heard with calls: a super-frame each, straight to where it waits, or many small frames at once.

use std::ffi::c_void;
use std::io;

use crate::arena::{Arena, MAX_RECORD};
use crate::frame::Ns;
use crate::packet::{insert_vlan, VLAN_BYTES, VNET};
use crate::port::{hear, monotonic, port_socket, tag, Arrival, Received, MIN_FRAME};
use crate::sys::*;

/// What the kernel may hold for us while we are not scheduled: 26 ms of super-frames at 10 Gbit/s.
const SOCKET_BUFFER: i32 = 64 << 20;
const CONTROL: usize = 128;

/// Frames of this size and below are received many at a time.
const SMALL: usize = 2048;
/// How many of them.
const BATCH: usize = 64;
/// Large frames received with one call each, straight to where they wait.
const LARGE_BATCH: usize = 16;
/// This many small frames in a row, and small is what the traffic is.
const STREAK: u32 = 32;

/// Hears one port.
pub struct Calls {
    fd: Fd,
    scratch: Vec<u8>,
    /// The tail of what turns out to be large, behind its first SMALL bytes.
    overflow: Vec<u8>,
    controls: Vec<[u64; CONTROL / 8]>,
    large: bool,
    streak: u32,
}

/// Everything that matters of a message's control data.
struct Extra {
    stamp: Option<Ns>,
    vlan: Option<(u16, u16)>,
}

impl Calls {
    /// A socket that hears nothing yet.
    pub fn new() -> io::Result<Calls> {
        let options = [
            (SOL_PACKET, PACKET_AUXDATA, 1),
            (SOL_PACKET, PACKET_IGNORE_OUTGOING, 1),
            (SOL_SOCKET, SO_TIMESTAMPNS, 1),
            (SOL_SOCKET, SO_RCVBUFFORCE, SOCKET_BUFFER),
        ];
        Ok(Calls {
            fd: port_socket(&options)?,
            scratch: vec![0; BATCH * SMALL],
            overflow: vec![0; BATCH * MAX_RECORD],
            controls: vec![[0; CONTROL / 8]; BATCH],
            large: false,
            streak: 0,
        })
    }

    /// Hears what comes in at the interface, from here on.
    pub fn hear(&self, index: i32) -> io::Result<()> {
        hear(&self.fd, index)
    }

    /// The descriptor to wait for.
    pub fn descriptor(&self) -> i32 {
        self.fd.0
    }

    /// Frames that the kernel had no room for since the last call.
    pub fn kernel_drops(&self) -> u64 {
        u64::from(packet_drops(&self.fd))
    }

    /// Takes what is there, without waiting.
    pub fn receive(&mut self, arena: &mut Arena) -> io::Result<Received> {
        let mut out = Received::default();
        let result = if self.large { self.receive_large(arena, &mut out) } else { self.receive_small(arena, &mut out) };
        match result {
            Err(e) if e.raw_os_error() == Some(EAGAIN) || e.kind() == io::ErrorKind::Interrupted => Ok(out),
            Err(e) if out.arrivals.is_empty() => Err(e),
            _ => Ok(out),
        }
    }

    fn message(&mut self, slot: usize, iov: &mut [Iovec]) -> Mmsghdr {
        Mmsghdr::new(iov, &mut self.controls[slot])
    }

    /// One call per frame, no copy: for super-frames.
    fn receive_large(&mut self, arena: &mut Arena, out: &mut Received) -> io::Result<()> {
        for _ in 0..LARGE_BATCH {
            let reserved = arena.reserve();
            let base = match reserved {
                Some(place) => arena.pointer(place),
                None => self.overflow.as_mut_ptr(),
            };
            let mut iov =
                [Iovec { base: unsafe { base.add(VLAN_BYTES) }.cast::<c_void>(), len: MAX_RECORD - VLAN_BYTES }];
            let mut messages = [self.message(0, &mut iov)];
            unsafe { receive(&self.fd, &mut messages) }?;
            let len = messages[0].len as usize;
            self.streak = if len <= SMALL { self.streak + 1 } else { 0 };
            match reserved {
                Some(place) if usable(&messages[0]) => {
                    let extra = self.extra(0, messages[0].hdr.control_len);
                    out.arrivals.push(settle(arena, place, len, &extra));
                }
                _ => out.no_room += 1,
            }
            if self.streak >= STREAK {
                self.large = false;
                break;
            }
        }
        out.more = true;
        Ok(())
    }

    /// Many frames a call, copied close together to where they wait.
    fn receive_small(&mut self, arena: &mut Arena, out: &mut Received) -> io::Result<()> {
        let (scratch, overflow) = (self.scratch.as_mut_ptr(), self.overflow.as_mut_ptr());
        let mut iovs: Vec<[Iovec; 2]> = (0..BATCH)
            .map(|slot| unsafe {
                [
                    Iovec { base: scratch.add(slot * SMALL).cast(), len: SMALL },
                    Iovec { base: overflow.add(slot * MAX_RECORD).cast(), len: MAX_RECORD - SMALL - VLAN_BYTES },
                ]
            })
            .collect();
        let mut messages: Vec<Mmsghdr> =
            iovs.iter_mut().enumerate().map(|(slot, iov)| self.message(slot, iov)).collect();
        let count = unsafe { receive(&self.fd, &mut messages) }?;
        let mut bytes = 0;
        for (slot, message) in messages[..count].iter().enumerate() {
            let (len, place) = (message.len as usize, arena.reserve());
            bytes += len;
            match place {
                Some(place) if usable(message) => {
                    let head = len.min(SMALL);
                    let room = arena.bytes(place, VLAN_BYTES + len);
                    room[VLAN_BYTES..VLAN_BYTES + head]
                        .copy_from_slice(&self.scratch[slot * SMALL..slot * SMALL + head]);
                    let rest = slot * MAX_RECORD;
                    room[VLAN_BYTES + head..].copy_from_slice(&self.overflow[rest..rest + len - head]);
                    let extra = self.extra(slot, message.hdr.control_len);
                    out.arrivals.push(settle(arena, place, len, &extra));
                }
                _ => out.no_room += 1,
            }
        }
        out.more = count == BATCH;
        if bytes > count * SMALL * 2 {
            self.large = true;
            self.streak = 0;
        }
        Ok(())
    }

    /// Reads the control messages: struct cmsghdr is length (8 bytes), level, type, data, in steps of 8.
    fn extra(&self, slot: usize, len: usize) -> Extra {
        let words = &self.controls[slot];
        let mut extra = Extra { stamp: None, vlan: None };
        let mut at = 0;
        while at + 2 < len.min(CONTROL) / 8 {
            let (size, kind) = (words[at] as usize, (words[at + 1] as u32 as i32, (words[at + 1] >> 32) as i32));
            let data = &words[at + 2..];
            match kind {
                (SOL_SOCKET, SO_TIMESTAMPNS) if size >= 32 => extra.stamp = Some(data[0] * 1_000_000_000 + data[1]),
                (SOL_PACKET, PACKET_AUXDATA) if size >= 36 => extra.vlan = vlan(data),
                _ => (),
            }
            at += ((size + 7) / 8).max(2);
        }
        extra
    }
}

/// struct tpacket_auxdata: status, len, snaplen (u32), mac, net, vlan_tci, vlan_tpid (u16).
fn vlan(data: &[u64]) -> Option<(u16, u16)> {
    tag(data[0] as u32, data[2] as u16, (data[2] >> 16) as u16)
}

fn usable(message: &Mmsghdr) -> bool {
    message.hdr.flags & MSG_TRUNC == 0 && message.len as usize >= VNET + MIN_FRAME
}

/// Keeps a record of `len` bytes that stands behind VLAN_BYTES of head room at `place`.
fn settle(arena: &mut Arena, place: u64, len: usize, extra: &Extra) -> Arrival {
    arena.commit(VLAN_BYTES + len);
    let clocks = (clock(CLOCK_REALTIME), now());
    let stamp = extra.stamp.unwrap_or(clocks.0);
    let at = monotonic(stamp, clocks);
    match extra.vlan {
        Some((tpid, tci)) => {
            insert_vlan(arena.bytes(place, VLAN_BYTES + len), tpid, tci);
            Arrival { place, len: VLAN_BYTES + len, at, stamp }
        }
        None => Arrival { place: place + VLAN_BYTES as u64, len, at, stamp },
    }
}
