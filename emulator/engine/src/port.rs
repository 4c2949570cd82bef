//! The two ends of one direction: what hears one port, whether with `calls` or through a `ring`, has in common, and what
//! speaks through the other.

use std::io;

use crate::frame::Ns;
use crate::sys::*;

/// What may be on its way through the sending port, which on a real one is sent asynchronously.
const SEND_BUFFER: i32 = 16 << 20;
const VLAN_VALID: u32 = 1 << 4;
const VLAN_TPID_VALID: u32 = 1 << 6;

/// No frame was stamped as long ago as this.
const DOUBTFUL_NS: Ns = 1_000_000_000;

/// The shortest frame that is one: its Ethernet header.
pub const MIN_FRAME: usize = 14;

/// A frame that was received: where its record begins, its length, and when it came in, by CLOCK_MONOTONIC. `stamp` is
/// the kernel's own, by CLOCK_REALTIME: the same for every socket that hears the frame.
pub struct Arrival {
    pub place: u64,
    pub len: usize,
    pub at: Ns,
    pub stamp: Ns,
}

/// What a call to `receive` found.
#[derive(Default)]
pub struct Received {
    pub arrivals: Vec<Arrival>,
    /// Frames for which there was no room.
    pub no_room: u64,
    /// Whether more may be waiting.
    pub more: bool,
}

/// The VLAN tag (TPID, TCI) that the kernel took off a frame, by the status that it gave it (TP_STATUS_VLAN_*).
pub fn tag(status: u32, tci: u16, tpid: u16) -> Option<(u16, u16)> {
    (status & VLAN_VALID != 0).then_some((if status & VLAN_TPID_VALID != 0 { tpid } else { 0x8100 }, tci))
}

/// The kernel's stamp is by CLOCK_REALTIME, which may be set; we need when that was by CLOCK_MONOTONIC. `clocks` are both
/// of a moment around it.
pub fn monotonic(stamp: Ns, clocks: (Ns, Ns)) -> Ns {
    let (real, now) = clocks;
    match real.checked_sub(stamp) {
        Some(age) if age < DOUBTFUL_NS => now - age,
        None if stamp - real < DOUBTFUL_NS => now + (stamp - real),
        // The clock was set meanwhile.
        _ => now,
    }
}

/// A packet socket whose frames have their virtio_net header; it hears nothing yet.
pub fn port_socket(options: &[(i32, i32, i32)]) -> io::Result<Fd> {
    let fd = packet_socket()?;
    set_option(&fd, SOL_PACKET, PACKET_VNET_HDR, &1_i32)?;
    for (level, name, value) in options {
        set_option(&fd, *level, *name, value)?;
    }
    Ok(fd)
}

/// Hears all that comes in at the interface, whoever it is for, from here on.
pub fn hear(fd: &Fd, index: i32) -> io::Result<()> {
    let promiscuous = PacketMreq { ifindex: index, kind: PACKET_MR_PROMISC, alen: 0, address: [0; 8] };
    set_option(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous)?;
    at_port(fd, index, ETH_P_ALL)
}

/// With no protocol it hears nothing, and speaks.
fn at_port(fd: &Fd, index: i32, protocol: u16) -> io::Result<()> {
    let (family, protocol) = (AF_PACKET as u16, protocol.to_be());
    let at = SockaddrLl { family, protocol, ifindex: index, hatype: 0, pkttype: 0, halen: 0, addr: [0; 8] };
    bind(fd, &at)
}

/// Speaks through one port.
pub struct Sender {
    fd: Fd,
}

impl Sender {
    pub fn new(index: i32) -> io::Result<Sender> {
        let options = [(SOL_PACKET, PACKET_QDISC_BYPASS, 1), (SOL_SOCKET, SO_SNDBUFFORCE, SEND_BUFFER)];
        let fd = port_socket(&options)?;
        at_port(&fd, index, 0)?;
        Ok(Sender { fd })
    }

    /// The descriptor to wait for.
    pub fn descriptor(&self) -> i32 {
        self.fd.0
    }

    /// Sends records, in order; how many went, or why the first did not.
    pub fn send(&self, records: &[(*mut u8, usize)]) -> io::Result<usize> {
        let mut iovs: Vec<Iovec> = records.iter().map(|&(base, len)| Iovec { base: base.cast(), len }).collect();
        let mut messages: Vec<Mmsghdr> =
            iovs.iter_mut().map(|iov| Mmsghdr::new(std::slice::from_mut(iov), &mut [])).collect();
        unsafe { send(&self.fd, &mut messages) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_told_by_the_other_clock_whether_it_is_older_than_both_or_newer() {
        assert_eq!(monotonic(1_000_000_700, (1_000_001_000, 5_000_000_000)), 4_999_999_700);
        assert_eq!(monotonic(1_000_001_200, (1_000_001_000, 5_000_000_000)), 5_000_000_200);
    }

    #[test]
    fn a_clock_that_was_set_meanwhile_tells_nothing() {
        assert_eq!(monotonic(1, (7_000_000_000, 5_000_000_000)), 5_000_000_000);
        assert_eq!(monotonic(9_000_000_000, (7_000_000_000, 5_000_000_000)), 5_000_000_000);
    }

    #[test]
    fn a_tag_is_told_only_where_there_was_one() {
        assert_eq!(tag(0, 7, 0x88A8), None);
        assert_eq!(tag(VLAN_VALID, 7, 0x88A8), Some((0x8100, 7)));
        assert_eq!(tag(VLAN_VALID | VLAN_TPID_VALID, 7, 0x88A8), Some((0x88A8, 7)));
    }
}
