//! What sends a direction's frames through its port.

use std::io;

use libc::{iovec, mmsghdr};

use crate::port::{PacketSocket, Port};
use crate::sys;

/// What may be on its way through the port, which on a real one is sent asynchronously.
const SEND_BUFFER: i32 = 16 << 20;

/// The sending port.
pub struct Egress {
    port: Box<dyn Port>,
}

impl Egress {
    /// Sends through an interface, past its qdisc.
    pub fn new(index: i32) -> io::Result<Egress> {
        let options =
            [(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1), (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER)];
        Ok(Egress::over(Box::new(PacketSocket::sender(index, &options)?)))
    }

    /// Sends through this port.
    pub fn over(port: Box<dyn Port>) -> Egress {
        Egress { port }
    }

    /// The descriptor to wait for.
    pub fn descriptor(&self) -> i32 {
        self.port.descriptor()
    }

    /// Sends records, in order; how many went, or why the first did not.
    ///
    /// # Safety
    /// Every record must be valid for its length.
    pub unsafe fn send(&mut self, records: &[(*mut u8, usize)]) -> io::Result<usize> {
        let mut parts: Vec<iovec> =
            records.iter().map(|&(base, iov_len)| iovec { iov_base: base.cast(), iov_len }).collect();
        let mut messages: Vec<mmsghdr> =
            parts.iter_mut().map(|part| sys::message(std::slice::from_mut(part), &mut [])).collect();
        self.port.send(&mut messages)
    }
}
