//! Frames that wait where the kernel put them: a ring of blocks shared with it (TPACKET_V3,
//! include/uapi/linux/if_packet.h). One copy less than with a call, and that one is done by whoever brings the frame. A
//! block goes back when the last of its frames is gone. The kernel shows a block when it is full, or some time after its
//! first frame: this is for delays that hide that.

use std::io;
use std::ptr::addr_of;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::frame::MAX_RECORD;
use crate::mapping::Mapping;
use crate::packet::{insert_vlan, VLAN_BYTES, VNET};
use crate::port::{vlan_tag, Arrival, Moment, PacketSocket, Port, Received, MIN_FRAME};
use crate::ring_geometry::{RingGeometry, SMALLEST_BLOCK};
use crate::sys::set_option;

/// Frames are handed on in such portions, so that those that are due need not wait.
const PORTION: usize = 64;

/// What receives a port, and the frames of it that have not left yet.
pub struct RingIngress {
    port: Box<dyn Port>,
    memory: Mapping,
    geometry: RingGeometry,
    /// Frames that have not left, by block; one more while the block is being read.
    live: Vec<u32>,
    inside: usize,
    block: usize,
    /// Where the next frame of the block stands, and how many there are still.
    cursor: Option<(usize, u32)>,
}

impl RingIngress {
    /// Takes the memory; receives nothing yet. None where the kernel has no memory in blocks of that size.
    pub fn new(geometry: RingGeometry) -> io::Result<Option<RingIngress>> {
        let request = libc::tpacket_req3 {
            tp_block_size: geometry.block_bytes as u32,
            tp_block_nr: geometry.blocks as u32,
            tp_frame_size: SMALLEST_BLOCK as u32,
            tp_frame_nr: (geometry.bytes() / SMALLEST_BLOCK) as u32,
            tp_retire_blk_tov: geometry.retire_ms as u32,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        let socket = PacketSocket::new(&[
            (libc::SOL_PACKET, libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V3 as i32),
            (libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1),
            (libc::SOL_PACKET, libc::PACKET_RESERVE, VLAN_BYTES as i32),
            // Else each socket that receives a frame stamps it for itself, and no change of ingress is without a gap.
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1),
        ])?;
        match set_option(socket.fd(), libc::SOL_PACKET, libc::PACKET_RX_RING, &request) {
            Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => return Ok(None),
            done => done?,
        }
        let memory = Mapping::shared(socket.descriptor(), geometry.bytes() as usize)?;
        Ok(Some(RingIngress::over(Box::new(socket), memory, geometry)))
    }

    /// A ring in this memory, whose other side is that of `port`.
    pub fn over(port: Box<dyn Port>, memory: Mapping, geometry: RingGeometry) -> RingIngress {
        assert!(memory.len() as u64 >= geometry.bytes());
        let live = vec![0; geometry.blocks as usize];
        RingIngress { port, memory, geometry, live, inside: 0, block: 0, cursor: None }
    }

    /// Its port.
    pub fn port(&mut self) -> &mut dyn Port {
        self.port.as_mut()
    }

    /// How large it is.
    pub fn geometry(&self) -> RingGeometry {
        self.geometry
    }

    /// How many frames have not left.
    pub fn inside(&self) -> usize {
        self.inside
    }

    /// The byte at an offset.
    pub fn pointer(&self, at: u64) -> *mut u8 {
        self.memory.pointer(at as usize)
    }

    /// The record at `at` is gone.
    pub fn release(&mut self, at: u64) {
        self.inside -= 1;
        self.leave((at / self.geometry.block_bytes) as usize);
    }

    fn leave(&mut self, block: usize) {
        self.live[block] -= 1;
        if self.live[block] == 0 {
            self.status(block).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
    }

    fn start_of(&self, block: usize) -> usize {
        block * self.geometry.block_bytes as usize
    }

    fn header(&self, block: usize) -> *const libc::tpacket_hdr_v1 {
        let description: *const libc::tpacket_block_desc = self.memory.pointer(self.start_of(block)).cast();
        // SAFETY: every block begins with its description; only an address is computed.
        unsafe { addr_of!((*description).hdr.bh1) }
    }

    /// Whose the block is: the one word that both sides write.
    fn status(&self, block: usize) -> &AtomicU32 {
        let header = self.header(block);
        // SAFETY: the word is within the mapping, aligned, and accessed by both sides as a whole.
        unsafe { &*addr_of!((*header).block_status).cast() }
    }

    /// Where the first frame of the next block stands and how many there are, if the kernel shows it.
    fn next_block(&self) -> Option<(usize, u32)> {
        let shown = self.status(self.block).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0;
        if self.live[self.block] > 0 || !shown {
            return None;
        }
        // SAFETY: the block is ours until its status says otherwise; the kernel writes nothing to it meanwhile.
        let header = unsafe { self.header(self.block).read() };
        Some((self.start_of(self.block) + header.offset_to_first_pkt as usize, header.num_pkts))
    }

    /// Takes what the kernel shows. Places are offsets in this ring.
    pub fn receive(&mut self, moment: Moment) -> Received {
        let mut out = Received::default();
        while out.arrivals.len() < PORTION {
            let (at, left) = match self.cursor {
                Some(cursor) => cursor,
                None => match self.next_block() {
                    Some(first) => {
                        self.live[self.block] = 1;
                        first
                    }
                    None => {
                        if out.arrivals.is_empty() {
                            // A port that went down says so until it is asked, and keeps us from waiting.
                            self.port.take_error();
                        }
                        return out;
                    }
                },
            };
            if left == 0 {
                self.cursor = None;
                self.leave(self.block);
                self.block = (self.block + 1) % self.live.len();
                continue;
            }
            // SAFETY: the kernel put a header of a frame there, aligned, and the block is ours.
            let header = unsafe { self.memory.pointer(at).cast::<libc::tpacket3_hdr>().read() };
            self.cursor = Some((at + header.tp_next_offset as usize, left - 1));
            match self.arrival(at, &header, moment) {
                Some(arrival) => out.arrivals.push(arrival),
                None => out.no_room += 1,
            }
        }
        out.more = true;
        out
    }

    /// The frame whose header is at `at`; None where it was cut, is no frame, or is longer than any record.
    fn arrival(&mut self, at: usize, header: &libc::tpacket3_hdr, moment: Moment) -> Option<Arrival> {
        let kept = header.tp_snaplen as usize;
        if header.tp_snaplen < header.tp_len || kept < MIN_FRAME || kept + VNET + VLAN_BYTES > MAX_RECORD {
            return None;
        }
        let stamp = u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec);
        let (mut place, mut len) = (at + usize::from(header.tp_mac) - VNET, VNET + kept);
        let tag = &header.hv1;
        if let Some((tpid, tci)) = vlan_tag(header.tp_status, tag.tp_vlan_tci as u16, tag.tp_vlan_tpid) {
            place -= VLAN_BYTES;
            len += VLAN_BYTES;
            assert!(place + len <= self.memory.len());
            // SAFETY: within the mapping; the frame and the room before it (PACKET_RESERVE) are ours until released.
            let room = unsafe { std::slice::from_raw_parts_mut(self.memory.pointer(place), len) };
            insert_vlan(room, tpid, tci);
        }
        self.live[self.block] += 1;
        self.inside += 1;
        Some(Arrival { place: place as u64, len, at: moment.of_stamp(stamp), stamp })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_port::{frame, MemoryRing, STAMP};

    const MOMENT: Moment = Moment { real: STAMP + 500, now: 9_000_000_000 };

    #[test]
    fn frames_are_shown_by_the_block_and_the_block_goes_back_with_its_last_frame() {
        let (mut ring, mut kernel) = MemoryRing::pair(4);
        assert!(ring.receive(MOMENT).arrivals.is_empty());
        kernel.put(&frame(1, 100), STAMP, None);
        kernel.put(&frame(2, 60_000), STAMP + 7, None);
        assert!(ring.receive(MOMENT).arrivals.is_empty(), "the block is still the kernel's");
        kernel.show();
        let found = ring.receive(MOMENT).arrivals;
        assert_eq!(
            found.iter().map(|a| (a.len, a.at)).collect::<Vec<_>>(),
            [(VNET + 100, 9_000_000_000 - 500), (VNET + 60_000, 9_000_000_000 - 493),]
        );
        assert_eq!((ring.inside(), kernel.owns(0)), (2, false));
        assert!(ring.receive(MOMENT).arrivals.is_empty());
        ring.release(found[1].place);
        assert!(!kernel.owns(0));
        ring.release(found[0].place);
        assert!(kernel.owns(0) && ring.inside() == 0);
    }

    #[test]
    fn a_ring_goes_round_and_stops_where_frames_still_wait() {
        let (mut ring, mut kernel) = MemoryRing::pair(3);
        let mut waiting = Vec::new();
        for round in 0..10 {
            assert!(kernel.put(&frame(round, 500), STAMP, None), "round {round}");
            kernel.show();
            waiting.extend(ring.receive(MOMENT).arrivals);
            if waiting.len() == 2 {
                ring.release(waiting.remove(0).place);
            }
        }
        for round in 0..2 {
            assert!(kernel.put(&frame(round, 500), STAMP, None));
            kernel.show();
        }
        assert!(!kernel.put(&frame(9, 500), STAMP, None), "every block is in use");
        assert_eq!(ring.receive(MOMENT).arrivals.len(), 2);
    }

    #[test]
    fn a_tag_goes_back_where_it_was_and_a_cut_frame_is_counted() {
        let (mut ring, mut kernel) = MemoryRing::pair(2);
        kernel.put(&frame(3, 80), STAMP, Some((0x88A8, 7)));
        kernel.put_cut(&frame(4, 80), STAMP);
        kernel.show();
        let found = ring.receive(MOMENT);
        assert_eq!((found.arrivals.len(), found.no_room), (1, 1));
        let arrival = found.arrivals[0];
        assert_eq!(arrival.len, VNET + 84);
        // SAFETY: the record was just received and is alive.
        let record = unsafe { std::slice::from_raw_parts(ring.pointer(arrival.place), arrival.len) };
        assert_eq!(record[VNET + 12..VNET + 16], [0x88, 0xA8, 0, 7]);
        assert_eq!(record[VNET + 16..], frame(3, 80)[12..]);
    }

    #[test]
    fn many_frames_come_in_portions() {
        let (mut ring, mut kernel) = MemoryRing::pair(2);
        (0..100).for_each(|n| assert!(kernel.put(&frame(n, 60), STAMP, None)));
        kernel.show();
        let (first, second) = (ring.receive(MOMENT), ring.receive(MOMENT));
        assert_eq!((first.arrivals.len(), first.more, second.arrivals.len(), second.more), (PORTION, true, 36, false));
    }
}
