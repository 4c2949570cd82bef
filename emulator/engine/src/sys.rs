//! The system calls that the standard library lacks, each behind a safe function.

use std::ffi::CString;
use std::io;
use std::mem::{size_of, zeroed, MaybeUninit};
use std::os::unix::io::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use libc::c_int;

use crate::frame::Ns;

/// The result of a call, or the error that it left behind.
pub fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// A packet socket that receives nothing until it is bound.
pub fn packet_socket() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers.
    let fd = checked(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor is open, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds a packet socket to an interface; with no protocol it receives nothing, and can send.
pub fn bind(fd: &OwnedFd, index: i32, protocol: c_int) -> io::Result<()> {
    // SAFETY: sockaddr_ll is plain numbers, for which zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (protocol as u16).to_be();
    address.sll_ifindex = index;
    let length = size_of::<libc::sockaddr_ll>() as u32;
    let pointer: *const libc::sockaddr_ll = &address;
    // SAFETY: the address lives until the call is done, and the length is its own.
    checked(unsafe { libc::bind(fd.as_raw_fd(), pointer.cast(), length) }).map(drop)
}

/// Sets an option of a socket. `T` is the kernel's own structure for that option.
pub fn set_option<T>(fd: &OwnedFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let pointer: *const T = value;
    // SAFETY: the kernel reads as many bytes as the value has, and keeps no pointer to it.
    checked(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, pointer.cast(), size_of::<T>() as u32) }).map(drop)
}

/// An option of a socket; as it was, where the kernel does not tell.
fn option<T: Copy>(fd: &OwnedFd, level: c_int, name: c_int, mut value: T) -> T {
    let (pointer, mut length): (*mut T, u32) = (&mut value, size_of::<T>() as u32);
    // SAFETY: the kernel writes at most `length` bytes, which the value has; it is plain numbers.
    unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, pointer.cast(), &mut length) };
    value
}

/// Frames that a packet socket's buffer had no room for since the last call.
pub fn packet_drops(fd: &OwnedFd) -> u32 {
    let none = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    option(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, none).tp_drops
}

/// Reads the error that a socket has to tell, if any, and so ends it.
pub fn take_error(fd: &OwnedFd) -> i32 {
    option(fd, libc::SOL_SOCKET, libc::SO_ERROR, 0)
}

/// A message in these parts; what the kernel says about it goes to `control`.
pub fn message(parts: &mut [libc::iovec], control: &mut [u64]) -> libc::mmsghdr {
    // SAFETY: mmsghdr is plain numbers and pointers, for which zero is a value (null).
    let mut message: libc::mmsghdr = unsafe { zeroed() };
    message.msg_hdr.msg_iov = parts.as_mut_ptr();
    message.msg_hdr.msg_iovlen = parts.len();
    message.msg_hdr.msg_control = control.as_mut_ptr().cast();
    message.msg_hdr.msg_controllen = std::mem::size_of_val(control);
    message
}

/// Receives at most `messages.len()` frames without waiting.
///
/// # Safety
/// Every pointer in `messages` must be valid for its length, and nobody else's to use.
pub unsafe fn receive(fd: &OwnedFd, messages: &mut [libc::mmsghdr]) -> io::Result<usize> {
    let count = messages.len() as u32;
    let (flags, forever) = (libc::MSG_DONTWAIT, std::ptr::null_mut());
    let received = libc::recvmmsg(fd.as_raw_fd(), messages.as_mut_ptr(), count, flags, forever);
    checked(received).map(|count| count as usize)
}

/// Sends frames without waiting; how many went, or why the first did not.
///
/// # Safety
/// Every pointer in `messages` must be valid for its length.
pub unsafe fn send(fd: &OwnedFd, messages: &mut [libc::mmsghdr]) -> io::Result<usize> {
    let sent = libc::sendmmsg(fd.as_raw_fd(), messages.as_mut_ptr(), messages.len() as u32, libc::MSG_DONTWAIT);
    checked(sent).map(|count| count as usize)
}

/// Waits until the descriptor is ready for `events`, or for `timeout`; -1 as descriptor: for the timeout alone.
pub fn wait(fd: RawFd, events: i16, timeout: Ns) {
    let mut polled = libc::pollfd { fd, events, revents: 0 };
    let timeout = libc::timespec {
        tv_sec: (timeout / 1_000_000_000) as libc::time_t,
        tv_nsec: (timeout % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: one pollfd and one timespec, which both outlive the call; no signal mask.
    unsafe { libc::ppoll(&mut polled, 1, &timeout, std::ptr::null()) };
}

/// A clock of the system in ns.
pub fn clock(which: libc::clockid_t) -> Ns {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(which, &mut time) };
    time.tv_sec as Ns * 1_000_000_000 + time.tv_nsec as Ns
}

/// The kernel's tick in ns: 1 to 10 ms.
pub fn tick_ns() -> Ns {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut time) };
    time.tv_nsec as Ns
}

/// An interface's index; None when there is no such interface.
pub fn interface_index(name: &str) -> Option<i32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name ends with a zero byte and outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => None,
        index => Some(index as i32),
    }
}

/// Brings an interface up.
pub fn interface_up(name: &str) -> io::Result<()> {
    // SAFETY: ifreq is plain numbers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { zeroed() };
    let room = libc::IFNAMSIZ - 1;
    request.ifr_name.iter_mut().zip(name.bytes().take(room)).for_each(|(to, from)| *to = from as libc::c_char);
    let fd = packet_socket()?;
    // SAFETY: the kernel reads and writes one ifreq.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFFLAGS as _, &mut request) })?;
    // SAFETY: the call before has filled this member of the union.
    unsafe { request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short };
    // SAFETY: the kernel reads one ifreq.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCSIFFLAGS as _, &mut request) }).map(drop)
}

/// Splits the process in two; 0 in the child, which leads a session of its own when `leader`.
pub fn fork(leader: bool) -> io::Result<i32> {
    // SAFETY: no thread was started yet, so that the child has all that the parent had.
    let pid = checked(unsafe { libc::fork() })?;
    if pid == 0 && leader {
        // SAFETY: the call takes no arguments.
        checked(unsafe { libc::setsid() })?;
    }
    Ok(pid)
}

/// Waits for a child; whether it ended with exit code 0.
pub fn ended_well(pid: i32) -> bool {
    let mut status = 0;
    // SAFETY: the kernel writes one number.
    while unsafe { libc::waitpid(pid, &mut status, 0) } < 0 {
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return false;
        }
    }
    status == 0
}

/// Puts `from` in the place of the three standard streams.
pub fn replace_standard_streams(from: RawFd) {
    for to in 0..3 {
        // SAFETY: the call takes no pointers; whoever has a standard stream as a Rust value does not own it.
        unsafe { libc::dup2(from, to) };
    }
}

/// New files are for their owner alone.
pub fn private_files() {
    // SAFETY: the call takes no pointers and cannot fail.
    unsafe { libc::umask(0o177) };
}

/// Maps memory: of `fd`, shared with the kernel, or with -1 of nobody.
pub fn map_memory(length: usize, fd: RawFd) -> io::Result<*mut u8> {
    let flags = match fd {
        -1 => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        _ => libc::MAP_SHARED,
    };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the kernel picks the address, so that nothing that is mapped already is touched.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, fd, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(base.cast())
}

/// What a thread may run on.
pub fn affinity(thread: i32) -> libc::cpu_set_t {
    let mut set = MaybeUninit::zeroed();
    // SAFETY: the kernel writes at most one cpu_set_t.
    unsafe { libc::sched_getaffinity(thread, size_of::<libc::cpu_set_t>(), set.as_mut_ptr()) };
    // SAFETY: a set of zeros, which is one, where the kernel wrote nothing.
    unsafe { set.assume_init() }
}
