//! Ports in memory, for tests without privileges: a packet socket of queues, and the kernel's side of a ring.

use std::collections::VecDeque;
use std::io;
use std::os::unix::io::RawFd;
use std::sync::{Arc, Mutex};

use crate::frame::Ns;
use crate::mapping::Mapping;
use crate::packet::VNET;
use crate::port::Port;
use crate::ring_geometry::{RingGeometry, SMALLEST_BLOCK};
use crate::ring_ingress::RingIngress;

/// When frames of tests come in, by CLOCK_REALTIME.
pub const STAMP: Ns = 1_700_000_000_000_000_000;

/// A frame of so many bytes; all behind its Ethernet header is `fill`.
pub fn frame(fill: u8, size: usize) -> Vec<u8> {
    let mut bytes = vec![fill; size];
    let header = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x90, 0];
    bytes[..14].copy_from_slice(&header);
    bytes
}

/// A frame that was sent.
pub type Sent = Vec<u8>;

type Tag = Option<(u16, u16)>;

#[derive(Default)]
struct State {
    coming: VecDeque<(Vec<u8>, Ns, Tag)>,
    sent: Vec<Sent>,
    error: Option<i32>,
    refuses: Option<i32>,
    drops: u64,
    muted: bool,
}

/// A port whose frames come from a queue and go to a list. Clones are the same port.
#[derive(Clone, Default)]
pub struct MemoryPort(Arc<Mutex<State>>);

impl MemoryPort {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().unwrap())
    }

    /// A frame comes in, stamped, and with a tag that the kernel has taken off.
    pub fn arrives(&self, frame: &[u8], stamp: Ns, tag: Tag) {
        self.record_arrives(&[&[0; VNET][..], frame].concat(), stamp, tag);
    }

    /// The same of a record: the virtio_net header and the frame.
    pub fn record_arrives(&self, record: &[u8], stamp: Ns, tag: Tag) {
        self.with(|state| state.coming.push_back((record.to_vec(), stamp, tag)));
    }

    /// All frames that were sent, with no virtio_net header.
    pub fn sent(&self) -> Vec<Sent> {
        self.with(|state| std::mem::take(&mut state.sent))
    }

    /// The next call to receive fails so.
    pub fn fails_with(&self, errno: i32) {
        self.with(|state| state.error = Some(errno));
    }

    /// Frames that are sent are refused so, or from now on taken.
    pub fn refuses_with(&self, errno: Option<i32>) {
        self.with(|state| state.refuses = errno);
    }

    /// The kernel had no room for so many frames.
    pub fn drops_frames(&self, count: u64) {
        self.with(|state| state.drops += count);
    }

    /// Whether it receives nothing any more.
    pub fn is_muted(&self) -> bool {
        self.with(|state| state.muted)
    }
}

/// Copies bytes to the parts of a message; how many found room.
fn fill(message: &mut libc::mmsghdr, bytes: &[u8]) -> usize {
    let mut done = 0;
    for part in 0..message.msg_hdr.msg_iovlen {
        // SAFETY: the message has so many parts, each as long as it says (Port::receive).
        unsafe {
            let part = *message.msg_hdr.msg_iov.add(part);
            let count = part.iov_len.min(bytes.len() - done);
            std::ptr::copy_nonoverlapping(bytes[done..].as_ptr(), part.iov_base.cast(), count);
            done += count;
        }
    }
    done
}

/// The control data that the kernel would add: the stamp and the tag.
fn control(stamp: Ns, tag: Tag) -> Vec<u64> {
    let header = |size: u64, level: i32, kind: i32| [16 + size, u64::from(level as u32) | (kind as u64) << 32];
    let mut words = header(16, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS).to_vec();
    words.extend([stamp / 1_000_000_000, stamp % 1_000_000_000]);
    let valid = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
    let (status, tag) = tag.map_or((0, 0), |(tpid, tci)| (valid, u64::from(tci) | u64::from(tpid) << 16));
    words.extend(header(20, libc::SOL_PACKET, libc::PACKET_AUXDATA));
    words.extend([u64::from(status), 0, tag]);
    words
}

impl Port for MemoryPort {
    unsafe fn receive(&mut self, messages: &mut [libc::mmsghdr]) -> io::Result<usize> {
        self.with(|state| {
            if let Some(errno) = state.error.take() {
                return Err(io::Error::from_raw_os_error(errno));
            }
            let mut count = 0;
            while count < messages.len() && !state.coming.is_empty() {
                let (record, stamp, tag) = state.coming.pop_front().unwrap();
                let message = &mut messages[count];
                let kept = fill(message, &record);
                message.msg_len = kept as u32;
                message.msg_hdr.msg_flags = if kept < record.len() { libc::MSG_TRUNC } else { 0 };
                let words = control(stamp, tag);
                assert!(words.len() * 8 <= message.msg_hdr.msg_controllen);
                std::ptr::copy_nonoverlapping(words.as_ptr(), message.msg_hdr.msg_control.cast(), words.len());
                message.msg_hdr.msg_controllen = words.len() * 8;
                count += 1;
            }
            match count {
                0 => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
                _ => Ok(count),
            }
        })
    }

    unsafe fn send(&mut self, messages: &mut [libc::mmsghdr]) -> io::Result<usize> {
        self.with(|state| {
            if let Some(errno) = state.refuses {
                return Err(io::Error::from_raw_os_error(errno));
            }
            for message in messages.iter() {
                let part = &*message.msg_hdr.msg_iov;
                let record = std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len);
                state.sent.push(record[VNET..].to_vec());
            }
            Ok(messages.len())
        })
    }

    fn open(&mut self, _index: i32) -> io::Result<()> {
        Ok(())
    }

    fn mute(&mut self) -> io::Result<()> {
        self.with(|state| state.muted = true);
        Ok(())
    }

    fn drops(&mut self) -> u64 {
        self.with(|state| std::mem::take(&mut state.drops))
    }

    fn take_error(&mut self) {
        self.with(|state| state.error = None);
    }

    fn descriptor(&self) -> RawFd {
        -1
    }
}

/// The kernel's side of a ring: it fills one block after the other and shows them.
pub struct MemoryRing {
    base: *mut u8,
    geometry: RingGeometry,
    block: usize,
    /// Where the next frame of the block goes, and how many are in it.
    next: usize,
    count: u32,
    port: MemoryPort,
}

/// Where the first frame of a block stands, and how long a frame's header is: multiples of 16, as in the kernel.
const FIRST: usize = 48;
const HEADER: usize = 96;

impl MemoryRing {
    /// A ring of so many blocks and its other side.
    pub fn pair(blocks: u64) -> (RingIngress, MemoryRing) {
        MemoryRing::of(RingGeometry { block_bytes: SMALLEST_BLOCK, blocks, retire_ms: 1 })
    }

    /// A ring of that size and its other side, which must not outlive it.
    pub fn of(geometry: RingGeometry) -> (RingIngress, MemoryRing) {
        let memory = Mapping::new(geometry.bytes() as usize).unwrap();
        let (base, port) = (memory.pointer(0), MemoryPort::default());
        let kernel = MemoryRing { base, geometry, block: 0, next: FIRST, count: 0, port: port.clone() };
        (RingIngress::over(Box::new(port), memory, geometry), kernel)
    }

    /// The port of the ring.
    pub fn port(&self) -> &MemoryPort {
        &self.port
    }

    fn start(&self, block: usize) -> *mut u8 {
        // SAFETY: the block is within the ring.
        unsafe { self.base.add(block * self.geometry.block_bytes as usize) }
    }

    fn header(&self, block: usize) -> *mut libc::tpacket_hdr_v1 {
        let description: *mut libc::tpacket_block_desc = self.start(block).cast();
        // SAFETY: every block begins with its description.
        unsafe { std::ptr::addr_of_mut!((*description).hdr.bh1) }
    }

    /// Whether a block is the kernel's.
    pub fn owns(&self, block: usize) -> bool {
        // SAFETY: within the ring, and tests have one thread.
        unsafe { (*self.header(block)).block_status == libc::TP_STATUS_KERNEL }
    }

    /// Puts a frame into the block; false where that is not the kernel's.
    pub fn put(&mut self, frame: &[u8], stamp: Ns, tag: Tag) -> bool {
        self.write(frame, frame.len(), stamp, tag)
    }

    /// Puts a frame into the block that lost its end.
    pub fn put_cut(&mut self, frame: &[u8], stamp: Ns) -> bool {
        self.write(frame, frame.len() + 1, stamp, None)
    }

    fn write(&mut self, frame: &[u8], whole: usize, stamp: Ns, tag: Tag) -> bool {
        let length = HEADER + (frame.len() + 15) / 16 * 16;
        if !self.owns(self.block) {
            return false;
        }
        assert!(self.next + length <= self.geometry.block_bytes as usize, "the block is full: show it");
        let valid = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
        // SAFETY: header and frame fit into the block, which is the kernel's; tpacket3_hdr is plain numbers.
        unsafe {
            let at = self.start(self.block).add(self.next);
            let mut header: libc::tpacket3_hdr = std::mem::zeroed();
            header.tp_next_offset = length as u32;
            (header.tp_sec, header.tp_nsec) = ((stamp / 1_000_000_000) as u32, (stamp % 1_000_000_000) as u32);
            (header.tp_snaplen, header.tp_len) = (frame.len() as u32, whole as u32);
            header.tp_mac = HEADER as u16;
            if let Some((tpid, tci)) = tag {
                header.tp_status = valid;
                (header.hv1.tp_vlan_tpid, header.hv1.tp_vlan_tci) = (tpid, u32::from(tci));
            }
            std::ptr::write_bytes(at, 0, HEADER);
            at.cast::<libc::tpacket3_hdr>().write(header);
            std::ptr::copy_nonoverlapping(frame.as_ptr(), at.add(HEADER), frame.len());
        }
        self.next += length;
        self.count += 1;
        true
    }

    /// Shows the block, if it is the kernel's, and goes on with the next.
    pub fn show(&mut self) {
        if !self.owns(self.block) {
            return;
        }
        // SAFETY: the header is within the ring, and tests have one thread.
        unsafe {
            let header = &mut *self.header(self.block);
            header.offset_to_first_pkt = FIRST as u32;
            header.num_pkts = self.count;
            header.block_status = libc::TP_STATUS_USER;
        }
        self.block = (self.block + 1) % self.geometry.blocks as usize;
        (self.next, self.count) = (FIRST, 0);
    }
}
