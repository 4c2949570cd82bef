//! A port received with calls: a super-frame each, straight to where it waits, or many small frames at once.

use std::io;
use std::mem::size_of;

use libc::{iovec, mmsghdr};

use crate::arena::Arena;
use crate::frame::Ns;
use crate::frame::MAX_RECORD;
use crate::packet::{insert_vlan, VLAN_BYTES, VNET};
use crate::port::{vlan_tag, Arrival, Moment, PacketSocket, Port, Received, MIN_FRAME};
use crate::sys;

/// What the kernel may hold for us while we are not scheduled: 26 ms of super-frames at 10 Gbit/s.
const SOCKET_BUFFER: i32 = 64 << 20;
/// Room for the control data of a message, in words.
pub const CONTROL: usize = 16;

/// Frames of this size and below are received many at a time.
const SMALL: usize = 2048;
/// How many of them.
const BATCH: usize = 64;
/// Large frames received with one call each, straight to where they wait.
const LARGE_BATCH: usize = 16;
/// This many small frames in a row, and small is what the traffic is.
const STREAK: u32 = 32;

/// What receives a port with calls.
pub struct SocketIngress {
    port: Box<dyn Port>,
    scratch: Vec<u8>,
    /// The tail of what turns out to be large, behind its first SMALL bytes.
    overflow: Vec<u8>,
    controls: Vec<[u64; CONTROL]>,
    large: bool,
    streak: u32,
}

/// Everything that matters of a message's control data.
#[derive(Debug, Default, PartialEq, Eq)]
struct Extra {
    stamp: Option<Ns>,
    vlan: Option<(u16, u16)>,
}

impl SocketIngress {
    /// A socket that receives nothing yet.
    pub fn new() -> io::Result<SocketIngress> {
        let socket = PacketSocket::new(&[
            (libc::SOL_PACKET, libc::PACKET_AUXDATA, 1),
            (libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1),
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1),
            (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, SOCKET_BUFFER),
        ])?;
        Ok(SocketIngress::over(Box::new(socket)))
    }

    /// What receives this port.
    pub fn over(port: Box<dyn Port>) -> SocketIngress {
        SocketIngress {
            port,
            scratch: vec![0; BATCH * SMALL],
            overflow: vec![0; BATCH * MAX_RECORD],
            controls: vec![[0; CONTROL]; BATCH],
            large: false,
            streak: 0,
        }
    }

    /// Its port.
    pub fn port(&mut self) -> &mut dyn Port {
        self.port.as_mut()
    }

    /// Takes what is there, without waiting.
    pub fn receive(&mut self, arena: &mut Arena, moment: Moment) -> io::Result<Received> {
        let mut out = Received::default();
        let result = match self.large {
            true => self.receive_large(arena, &mut out, moment),
            false => self.receive_small(arena, &mut out, moment),
        };
        match result {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock || e.kind() == io::ErrorKind::Interrupted => Ok(out),
            Err(e) if out.arrivals.is_empty() => Err(e),
            _ => Ok(out),
        }
    }

    /// One call per frame, no copy: for super-frames.
    fn receive_large(&mut self, arena: &mut Arena, out: &mut Received, moment: Moment) -> io::Result<()> {
        for _ in 0..LARGE_BATCH {
            let reserved = arena.reserve();
            let base = match reserved {
                Some(place) => arena.pointer(place + VLAN_BYTES as u64),
                None => self.overflow.as_mut_ptr(),
            };
            let mut part = [iovec { iov_base: base.cast(), iov_len: MAX_RECORD - VLAN_BYTES }];
            let mut messages = [sys::message(&mut part, &mut self.controls[0])];
            // SAFETY: the part is what the arena reserved less its head room, or the overflow; both are so long, and
            // nobody else's until they are committed. The control data is this slot's own.
            unsafe { self.port.receive(&mut messages) }?;
            let len = messages[0].msg_len as usize;
            self.streak = if len <= SMALL { self.streak + 1 } else { 0 };
            match reserved {
                Some(place) if usable(&messages[0]) => {
                    let extra = extra(&self.controls[0], messages[0].msg_hdr.msg_controllen);
                    out.arrivals.push(settle(arena, place, len, &extra, moment));
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
    fn receive_small(&mut self, arena: &mut Arena, out: &mut Received, moment: Moment) -> io::Result<()> {
        let slots = self.scratch.chunks_exact_mut(SMALL).zip(self.overflow.chunks_exact_mut(MAX_RECORD));
        let mut parts: Vec<[iovec; 2]> = slots
            .map(|(head, tail)| {
                [
                    iovec { iov_base: head.as_mut_ptr().cast(), iov_len: SMALL },
                    iovec { iov_base: tail.as_mut_ptr().cast(), iov_len: MAX_RECORD - SMALL - VLAN_BYTES },
                ]
            })
            .collect();
        let both = parts.iter_mut().zip(&mut self.controls);
        let mut messages: Vec<mmsghdr> = both.map(|(parts, control)| sys::message(parts, control)).collect();
        // SAFETY: every part is a slot's own piece of `scratch` and `overflow`, and no longer than that.
        let count = unsafe { self.port.receive(&mut messages) }?;
        let mut bytes = 0;
        for (slot, message) in messages[..count].iter().enumerate() {
            let (len, place) = (message.msg_len as usize, arena.reserve());
            bytes += len;
            match place {
                Some(place) if usable(message) => {
                    let head = len.min(SMALL);
                    let room = arena.bytes(place, VLAN_BYTES + len);
                    room[VLAN_BYTES..VLAN_BYTES + head]
                        .copy_from_slice(&self.scratch[slot * SMALL..slot * SMALL + head]);
                    let rest = slot * MAX_RECORD;
                    room[VLAN_BYTES + head..].copy_from_slice(&self.overflow[rest..rest + len - head]);
                    let extra = extra(&self.controls[slot], message.msg_hdr.msg_controllen);
                    out.arrivals.push(settle(arena, place, len, &extra, moment));
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
}

/// Reads the control messages: struct cmsghdr is length (8 bytes), level, type, data, in steps of 8.
fn extra(words: &[u64; CONTROL], len: usize) -> Extra {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    let mut extra = Extra::default();
    let mut at = 0;
    while at + 2 < len.min(CONTROL * 8) / 8 {
        let (size, kind) = (words[at] as usize, (words[at + 1] as u32 as i32, (words[at + 1] >> 32) as i32));
        let data = &words[at + 2..];
        match kind {
            // The stamp's control message has the option's number (SCM_TIMESTAMPNS).
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) if size >= HEADER + 16 && data.len() >= 2 => {
                extra.stamp = Some(data[0] * 1_000_000_000 + data[1]);
            }
            (libc::SOL_PACKET, libc::PACKET_AUXDATA) if data.len() * 8 >= size_of::<libc::tpacket_auxdata>() => {
                // SAFETY: the words hold at least one tpacket_auxdata, which is plain numbers.
                let told = unsafe { data.as_ptr().cast::<libc::tpacket_auxdata>().read() };
                extra.vlan = vlan_tag(told.tp_status, told.tp_vlan_tci, told.tp_vlan_tpid);
            }
            _ => (),
        }
        at += ((size + 7) / 8).max(2);
    }
    extra
}

fn usable(message: &mmsghdr) -> bool {
    message.msg_hdr.msg_flags & libc::MSG_TRUNC == 0 && message.msg_len as usize >= VNET + MIN_FRAME
}

/// Keeps a record of `len` bytes that stands behind VLAN_BYTES of head room at `place`.
fn settle(arena: &mut Arena, place: u64, len: usize, extra: &Extra, moment: Moment) -> Arrival {
    arena.commit(VLAN_BYTES + len);
    let stamp = extra.stamp.unwrap_or(moment.real);
    let at = moment.of_stamp(stamp);
    match extra.vlan {
        Some((tpid, tci)) => {
            insert_vlan(arena.bytes(place, VLAN_BYTES + len), tpid, tci);
            Arrival { place, len: VLAN_BYTES + len, at, stamp }
        }
        None => Arrival { place: place + VLAN_BYTES as u64, len, at, stamp },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_port::{frame, MemoryPort, Sent, STAMP};

    const MOMENT: Moment = Moment { real: STAMP + 500, now: 9_000_000_000 };

    fn opened() -> (SocketIngress, MemoryPort, Arena) {
        let port = MemoryPort::default();
        (SocketIngress::over(Box::new(port.clone())), port, Arena::new(64 << 20).unwrap())
    }

    /// The frames that a call found, without their virtio_net headers.
    fn frames(arena: &mut Arena, found: &Received) -> Vec<Vec<u8>> {
        found.arrivals.iter().map(|a| arena.bytes(a.place, a.len)[VNET..].to_vec()).collect()
    }

    #[test]
    fn small_and_large_frames_come_as_they_were_whichever_way_they_are_fetched() {
        let (mut ingress, port, mut arena) = opened();
        let (mut seen, mut was_large) = (Vec::new(), false);
        // Mostly large ones, so that the way changes, then mostly small ones, so that it changes back.
        let sizes = (0..300).map(|n| if n < 100 && n % 3 > 0 { 40_000 + n } else { 60 + n % 1000 });
        let sent: Vec<_> = sizes.enumerate().map(|(n, size)| frame(n as u8, size)).collect();
        for some in sent.chunks(7) {
            some.iter().for_each(|frame| port.arrives(frame, STAMP, None));
            loop {
                let found = ingress.receive(&mut arena, MOMENT).unwrap();
                if found.arrivals.is_empty() {
                    break;
                }
                assert!(found.arrivals.iter().all(|a| a.at == 9_000_000_000 - 500 && a.stamp == STAMP));
                seen.extend(frames(&mut arena, &found));
                was_large |= ingress.large;
            }
        }
        assert!(seen == sent);
        assert!(was_large && !ingress.large);
    }

    #[test]
    fn a_tag_that_the_kernel_took_off_goes_back() {
        let (mut ingress, port, mut arena) = opened();
        port.arrives(&frame(3, 80), STAMP, Some((0x8100, 7)));
        let found = ingress.receive(&mut arena, MOMENT).unwrap();
        let record = &frames(&mut arena, &found)[0];
        assert_eq!((record.len(), &record[12..16]), (84, &[0x81, 0, 0, 7][..]));
        assert_eq!(record[16..], frame(3, 80)[12..]);
    }

    #[test]
    fn what_is_no_frame_and_what_finds_no_room_is_counted() {
        let (mut ingress, port, _) = opened();
        let mut small = Arena::new(1).unwrap();
        port.arrives(&[1, 2, 3], STAMP, None);
        (0..200).for_each(|n| port.arrives(&frame(n, 60_000), STAMP, None));
        let (mut kept, mut dropped) = (0, 0);
        loop {
            let found = ingress.receive(&mut small, MOMENT).unwrap();
            if found.arrivals.is_empty() && found.no_room == 0 {
                break;
            }
            kept += found.arrivals.len();
            dropped += found.no_room as usize;
        }
        assert_eq!(kept + dropped, 201);
        // Four chunks of 2 MiB, of which each keeps the room of one record of the longest free.
        assert!((100..140).contains(&kept), "{kept}");
    }

    #[test]
    fn a_port_that_went_down_says_so_once() {
        let (mut ingress, port, mut arena) = opened();
        port.fails_with(libc::ENETDOWN);
        assert_eq!(ingress.receive(&mut arena, MOMENT).unwrap_err().raw_os_error(), Some(libc::ENETDOWN));
        assert!(ingress.receive(&mut arena, MOMENT).unwrap().arrivals.is_empty());
        assert_eq!(port.sent(), Vec::<Sent>::new());
    }

    #[test]
    fn control_data_that_makes_no_sense_is_left_alone() {
        let nothing = extra(&[0; CONTROL], 0);
        assert_eq!(nothing, Extra::default());
        for size in 0..200 {
            let mut words = [u64::MAX; CONTROL];
            words[0] = size;
            let _ = extra(&words, size as usize);
        }
    }
}
