//! A port: the calls on one packet socket, behind a trait, so that all that reads and writes frames works in memory too.

use std::io;
use std::os::unix::io::{AsRawFd, OwnedFd, RawFd};

use crate::frame::Ns;
use crate::sys;

/// The shortest frame that is one: its Ethernet header.
pub const MIN_FRAME: usize = 14;

/// No frame was stamped as long ago as this.
const DOUBTFUL_NS: Ns = 1_000_000_000;

/// One packet socket.
pub trait Port: Send {
    /// Receives frames without waiting; how many there were.
    ///
    /// # Safety
    /// Every pointer in `messages` must be valid for its length, and nobody else's to use.
    unsafe fn receive(&mut self, messages: &mut [libc::mmsghdr]) -> io::Result<usize>;

    /// Sends frames, in order and without waiting; how many went, or why the first did not.
    ///
    /// # Safety
    /// Every pointer in `messages` must be valid for its length.
    unsafe fn send(&mut self, messages: &mut [libc::mmsghdr]) -> io::Result<usize>;

    /// Receives all that comes in at the interface, whoever it is for, from here on.
    fn open(&mut self, index: i32) -> io::Result<()>;

    /// Receives nothing any more.
    fn mute(&mut self) -> io::Result<()>;

    /// Frames that the kernel had no room for since the last call.
    fn drops(&mut self) -> u64;

    /// Ends the error that the port has to tell, if any.
    fn take_error(&mut self);

    /// What to wait for; -1 where there is nothing.
    fn descriptor(&self) -> RawFd;
}

/// A port of the kernel's.
pub struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// A socket whose frames have their virtio_net header, with these options (level, name, value); it receives nothing
    /// yet.
    pub fn new(options: &[(i32, i32, i32)]) -> io::Result<PacketSocket> {
        let fd = sys::packet_socket()?;
        sys::set_option(&fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1_i32)?;
        for (level, name, value) in options {
            sys::set_option(&fd, *level, *name, value)?;
        }
        Ok(PacketSocket(fd))
    }

    /// One that sends through an interface and receives nothing.
    pub fn sender(index: i32, options: &[(i32, i32, i32)]) -> io::Result<PacketSocket> {
        let socket = PacketSocket::new(options)?;
        sys::bind(&socket.0, index, 0)?;
        Ok(socket)
    }

    /// The descriptor with its owner.
    pub fn fd(&self) -> &OwnedFd {
        &self.0
    }
}

impl Port for PacketSocket {
    unsafe fn receive(&mut self, messages: &mut [libc::mmsghdr]) -> io::Result<usize> {
        sys::receive(&self.0, messages)
    }

    unsafe fn send(&mut self, messages: &mut [libc::mmsghdr]) -> io::Result<usize> {
        sys::send(&self.0, messages)
    }

    fn open(&mut self, index: i32) -> io::Result<()> {
        let all = libc::packet_mreq {
            mr_ifindex: index,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        sys::set_option(&self.0, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &all)?;
        sys::bind(&self.0, index, libc::ETH_P_ALL)
    }

    fn mute(&mut self) -> io::Result<()> {
        let mut drop_all = libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
        let program = libc::sock_fprog { len: 1, filter: &mut drop_all };
        sys::set_option(&self.0, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    fn drops(&mut self) -> u64 {
        u64::from(sys::packet_drops(&self.0))
    }

    fn take_error(&mut self) {
        sys::take_error(&self.0);
    }

    fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// A frame that was received: where its record begins, its length, and when it came in, by CLOCK_MONOTONIC. `stamp` is
/// the kernel's own, by CLOCK_REALTIME: the same for every socket that receives the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub place: u64,
    pub len: usize,
    pub at: Ns,
    pub stamp: Ns,
}

/// What a call to `receive` found.
#[derive(Debug, Default)]
pub struct Received {
    pub arrivals: Vec<Arrival>,
    /// Frames for which there was no room.
    pub no_room: u64,
    /// Whether more may be waiting.
    pub more: bool,
}

/// One moment by two clocks: CLOCK_REALTIME, which stamps frames and may be set, and CLOCK_MONOTONIC, which never jumps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    pub real: Ns,
    pub now: Ns,
}

impl Moment {
    /// When a frame stamped so came in, by CLOCK_MONOTONIC.
    pub fn of_stamp(self, stamp: Ns) -> Ns {
        match self.real.checked_sub(stamp) {
            Some(age) if age < DOUBTFUL_NS => self.now - age,
            None if stamp - self.real < DOUBTFUL_NS => self.now + (stamp - self.real),
            // The clock was set meanwhile.
            _ => self.now,
        }
    }
}

/// The VLAN tag (TPID, TCI) that the kernel took off a frame, by the status that it gave it.
pub fn vlan_tag(status: u32, tci: u16, tpid: u16) -> Option<(u16, u16)> {
    let has = |bit: u32| status & bit != 0;
    has(libc::TP_STATUS_VLAN_VALID).then_some((if has(libc::TP_STATUS_VLAN_TPID_VALID) { tpid } else { 0x8100 }, tci))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_told_by_the_other_clock_whether_it_is_older_than_both_or_newer() {
        let moment = Moment { real: 1_000_001_000, now: 5_000_000_000 };
        assert_eq!(moment.of_stamp(1_000_000_700), 4_999_999_700);
        assert_eq!(moment.of_stamp(1_000_001_200), 5_000_000_200);
    }

    #[test]
    fn a_clock_that_was_set_meanwhile_tells_nothing() {
        let moment = Moment { real: 7_000_000_000, now: 5_000_000_000 };
        assert_eq!(moment.of_stamp(1), 5_000_000_000);
        assert_eq!(moment.of_stamp(9_000_000_000), 5_000_000_000);
    }

    #[test]
    fn a_tag_is_told_only_where_there_was_one() {
        let valid = libc::TP_STATUS_VLAN_VALID;
        assert_eq!(vlan_tag(0, 7, 0x88A8), None);
        assert_eq!(vlan_tag(valid, 7, 0x88A8), Some((0x8100, 7)));
        assert_eq!(vlan_tag(valid | libc::TP_STATUS_VLAN_TPID_VALID, 7, 0x88A8), Some((0x88A8, 7)));
    }
}
