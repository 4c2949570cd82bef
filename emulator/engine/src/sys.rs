//! The system calls that the standard library lacks. Layouts: 64-bit Linux (asm-generic), little endian.

use std::ffi::{c_void, CString};
use std::io;
use std::os::raw::{c_char, c_int, c_long, c_uint, c_ulong};

use crate::frame::Ns;

pub const AF_PACKET: c_int = 17;
pub const SOCK_RAW: c_int = 3;
pub const SOCK_CLOEXEC: c_int = 0o2000000;
pub const SOL_SOCKET: c_int = 1;
pub const SOL_PACKET: c_int = 263;
const SO_ERROR: c_int = 4;
pub const SO_SNDBUFFORCE: c_int = 32;
pub const SO_RCVBUFFORCE: c_int = 33;
/// Also the type of the control message that carries the stamp (SCM_TIMESTAMPNS).
pub const SO_TIMESTAMPNS: c_int = 35;
pub const PACKET_ADD_MEMBERSHIP: c_int = 1;
pub const PACKET_STATISTICS: c_int = 6;
pub const PACKET_AUXDATA: c_int = 8;
pub const PACKET_VNET_HDR: c_int = 15;
pub const PACKET_QDISC_BYPASS: c_int = 20;
pub const PACKET_IGNORE_OUTGOING: c_int = 23;
pub const PACKET_MR_PROMISC: u16 = 1;
pub const ETH_P_ALL: u16 = 3;
pub const MSG_DONTWAIT: c_int = 0x40;
pub const MSG_TRUNC: c_int = 0x20;
pub const POLLIN: i16 = 1;
pub const POLLOUT: i16 = 4;
pub const EAGAIN: i32 = 11;
pub const ENOMEM: i32 = 12;
pub const ENOBUFS: i32 = 105;
pub const CLOCK_REALTIME: c_int = 0;
pub const CLOCK_MONOTONIC: c_int = 1;
const CLOCK_MONOTONIC_COARSE: c_int = 6;

const SIOCGIFFLAGS: c_ulong = 0x8913;
const SIOCSIFFLAGS: c_ulong = 0x8914;
const IFF_UP: i16 = 1;

#[repr(C)]
pub struct Iovec {
    pub base: *mut c_void,
    pub len: usize,
}

#[repr(C)]
pub struct Msghdr {
    pub name: *mut c_void,
    pub name_len: u32,
    pub iov: *mut Iovec,
    pub iov_len: usize,
    pub control: *mut c_void,
    pub control_len: usize,
    pub flags: c_int,
}

#[repr(C)]
pub struct Mmsghdr {
    pub hdr: Msghdr,
    pub len: c_uint,
}

impl Mmsghdr {
    /// One message in these parts; what the kernel says about it goes to `control`.
    pub fn new(iov: &mut [Iovec], control: &mut [u64]) -> Mmsghdr {
        let hdr = Msghdr {
            name: std::ptr::null_mut(),
            name_len: 0,
            iov: iov.as_mut_ptr(),
            iov_len: iov.len(),
            control: control.as_mut_ptr().cast(),
            control_len: std::mem::size_of_val(control),
            flags: 0,
        };
        Mmsghdr { hdr, len: 0 }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Timespec {
    pub seconds: i64,
    pub nanoseconds: c_long,
}

#[repr(C)]
pub struct SockaddrLl {
    pub family: u16,
    pub protocol: u16,
    pub ifindex: c_int,
    pub hatype: u16,
    pub pkttype: u8,
    pub halen: u8,
    pub addr: [u8; 8],
}

#[repr(C)]
pub struct PacketMreq {
    pub ifindex: c_int,
    pub kind: u16,
    pub alen: u16,
    pub address: [u8; 8],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Pollfd {
    pub fd: c_int,
    pub events: i16,
    pub revents: i16,
}

#[repr(C)]
struct Ifreq {
    name: [u8; 16],
    flags: i16,
    rest: [u8; 22],
}

mod raw {
    use super::*;

    extern "C" {
        pub fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
        pub fn bind(fd: c_int, addr: *const c_void, len: u32) -> c_int;
        pub fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: u32) -> c_int;
        pub fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut u32) -> c_int;
        pub fn recvmmsg(fd: c_int, msgs: *mut Mmsghdr, n: c_uint, flags: c_int, timeout: *mut Timespec) -> c_int;
        pub fn sendmmsg(fd: c_int, msgs: *mut Mmsghdr, n: c_uint, flags: c_int) -> c_int;
        pub fn ppoll(fds: *mut Pollfd, n: c_ulong, timeout: *const Timespec, mask: *const c_void) -> c_int;
        pub fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
        pub fn clock_getres(clock: c_int, time: *mut Timespec) -> c_int;
        pub fn if_nametoindex(name: *const c_char) -> c_uint;
        pub fn ioctl(fd: c_int, request: c_ulong, ...) -> c_int;
        pub fn close(fd: c_int) -> c_int;
        pub fn fork() -> c_int;
        pub fn setsid() -> c_int;
        pub fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
        pub fn dup2(from: c_int, to: c_int) -> c_int;
        pub fn umask(mask: c_uint) -> c_uint;
    }
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// A file descriptor that is closed when it goes.
pub struct Fd(pub c_int);

impl Drop for Fd {
    fn drop(&mut self) {
        unsafe { raw::close(self.0) };
    }
}

/// A packet socket that hears nothing until it is bound.
pub fn packet_socket() -> io::Result<Fd> {
    checked(unsafe { raw::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0) }).map(Fd)
}

pub fn bind(fd: &Fd, address: &SockaddrLl) -> io::Result<()> {
    let len = std::mem::size_of::<SockaddrLl>() as u32;
    checked(unsafe { raw::bind(fd.0, (address as *const SockaddrLl).cast(), len) }).map(drop)
}

pub fn set_option<T>(fd: &Fd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let len = std::mem::size_of::<T>() as u32;
    checked(unsafe { raw::setsockopt(fd.0, level, name, (value as *const T).cast(), len) }).map(drop)
}

/// Frames that this packet socket's receive buffer had no room for since the last call.
pub fn packet_drops(fd: &Fd) -> u32 {
    let mut counts = [0_u32; 2];
    let mut len = 8;
    unsafe { raw::getsockopt(fd.0, SOL_PACKET, PACKET_STATISTICS, counts.as_mut_ptr().cast(), &mut len) };
    counts[1]
}

/// Hears the error that a socket has to tell, if any, and so ends it.
pub fn take_error(fd: &Fd) {
    let (mut error, mut len) = (0_i32, 4);
    unsafe { raw::getsockopt(fd.0, SOL_SOCKET, SO_ERROR, (&mut error as *mut i32).cast(), &mut len) };
}

/// Receives at most `messages.len()` frames without waiting.
///
/// # Safety
/// Every pointer in `messages` must be valid for its length.
pub unsafe fn receive(fd: &Fd, messages: &mut [Mmsghdr]) -> io::Result<usize> {
    let n = messages.len() as c_uint;
    checked(raw::recvmmsg(fd.0, messages.as_mut_ptr(), n, MSG_DONTWAIT, std::ptr::null_mut())).map(|n| n as usize)
}

/// Sends frames without waiting; how many went, or why the first did not.
///
/// # Safety
/// Every pointer in `messages` must be valid for its length.
pub unsafe fn send(fd: &Fd, messages: &mut [Mmsghdr]) -> io::Result<usize> {
    checked(raw::sendmmsg(fd.0, messages.as_mut_ptr(), messages.len() as c_uint, MSG_DONTWAIT)).map(|n| n as usize)
}

/// Waits until the descriptor is ready for `events`, or for `timeout`; -1 as descriptor: for the timeout alone.
pub fn wait(fd: c_int, events: i16, timeout: Ns) {
    let mut fds = [Pollfd { fd, events, revents: 0 }];
    let timeout =
        Timespec { seconds: (timeout / 1_000_000_000) as i64, nanoseconds: (timeout % 1_000_000_000) as c_long };
    unsafe { raw::ppoll(fds.as_mut_ptr(), 1, &timeout, std::ptr::null()) };
}

/// A clock of the system in ns.
pub fn clock(which: c_int) -> Ns {
    let mut time = Timespec::default();
    unsafe { raw::clock_gettime(which, &mut time) };
    time.seconds as Ns * 1_000_000_000 + time.nanoseconds as Ns
}

/// Now, by the clock that never jumps.
pub fn now() -> Ns {
    clock(CLOCK_MONOTONIC)
}

/// The kernel's tick in ns: 1 to 10 ms.
pub fn tick_ns() -> Ns {
    let mut time = Timespec::default();
    unsafe { raw::clock_getres(CLOCK_MONOTONIC_COARSE, &mut time) };
    time.nanoseconds as Ns
}

/// An interface's index; None when there is no such interface.
pub fn interface_index(name: &str) -> Option<i32> {
    let name = CString::new(name).ok()?;
    match unsafe { raw::if_nametoindex(name.as_ptr()) } {
        0 => None,
        index => Some(index as i32),
    }
}

/// Brings an interface up.
pub fn interface_up(name: &str) -> io::Result<()> {
    let mut request = Ifreq { name: [0; 16], flags: 0, rest: [0; 22] };
    request.name.iter_mut().zip(name.bytes().take(15)).for_each(|(to, from)| *to = from);
    let fd = packet_socket()?;
    checked(unsafe { raw::ioctl(fd.0, SIOCGIFFLAGS, &mut request) })?;
    request.flags |= IFF_UP;
    checked(unsafe { raw::ioctl(fd.0, SIOCSIFFLAGS, &mut request) }).map(drop)
}

/// Splits the process in two; 0 in the child, which leads a session of its own when `leader`.
pub fn fork(leader: bool) -> io::Result<i32> {
    let pid = checked(unsafe { raw::fork() })?;
    if pid == 0 && leader {
        checked(unsafe { raw::setsid() })?;
    }
    Ok(pid)
}

/// Waits for a child; whether it ended with exit code 0.
pub fn ended_well(pid: i32) -> bool {
    let mut status = 0;
    while unsafe { raw::waitpid(pid, &mut status, 0) } < 0 {
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return false;
        }
    }
    status == 0
}

/// Puts `from` in the place of the three standard streams.
pub fn replace_standard_streams(from: c_int) {
    for to in 0..3 {
        unsafe { raw::dup2(from, to) };
    }
}

/// New files are for their owner alone.
pub fn private_files() {
    unsafe { raw::umask(0o177) };
}
