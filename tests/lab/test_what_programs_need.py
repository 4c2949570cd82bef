"""What databases, web servers and file servers ask of a kernel, each used for real in the lab's standard one."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import raw_calls
from support.raw_calls import Uring, call

IPC_CREATE, IPC_REMOVE = 0o1000, 0


@pytest.fixture
def here() -> Iterator[Path]:
    """A folder in the lab's memory: pytest's own may be one of the host."""
    folder = Path("/tmp/needs")
    folder.mkdir()
    (folder / "file").write_bytes(b"forty-two bytes of text for all the tests\n")
    yield folder
    subprocess.run(["rm", "-rf", folder], check=True)


@pytest.fixture
def uring() -> Iterator[Uring]:
    with contextlib.closing(Uring()) as ring:
        yield ring


def test_io_uring_reads_a_file(here: Path, uring: Uring) -> None:
    buffer = ctypes.create_string_buffer(64)
    with (here / "file").open("rb") as file:
        assert uring.run(raw_calls.READ, file.fileno(), ctypes.addressof(buffer), 64) == 42
    assert buffer.value == (here / "file").read_bytes()


def test_an_hour_in_io_uring_passes_at_once(uring: Uring) -> None:
    before, lasts = time.monotonic_ns(), raw_calls.timespec(3600)
    assert uring.run(raw_calls.TIMEOUT, -1, ctypes.addressof(lasts), 1) == -62  # ETIME
    assert 0 <= raw_calls.passed_s(before) - 3600 < 0.001


def test_io_uring_receives_what_a_socket_gets_later(uring: Uring) -> None:
    near, far = socket.socketpair()
    buffer = ctypes.create_string_buffer(8)
    with near, far:
        if not (child := os.fork()):
            time.sleep(5)
            far.send(b"later")
            os._exit(0)
        before = time.monotonic_ns()
        assert uring.run(raw_calls.READ, near.fileno(), ctypes.addressof(buffer), 8) == 5
        assert 5 <= raw_calls.passed_s(before) < 5.001
        os.waitpid(child, 0)
    assert buffer.value == b"later"


def test_aio_reads_a_file(here: Path) -> None:
    with (here / "file").open("rb") as file:
        assert raw_calls.aio_read(file.fileno(), 64) == (here / "file").read_bytes()


def test_system_v_memory_is_shared_between_processes() -> None:
    number = call("shmget", 0, 4096, IPC_CREATE | 0o600)
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    address = libc.shmat(number, None, 0)
    call("shmctl", number, IPC_REMOVE, None)
    if not (child := os.fork()):
        ctypes.memmove(address, b"shared", 6)
        os._exit(0)
    os.waitpid(child, 0)
    assert ctypes.string_at(address, 6) == b"shared"


def test_system_v_semaphores_and_messages() -> None:
    semaphore, queue = call("semget", 0, 1, IPC_CREATE | 0o600), call("msgget", 0, IPC_CREATE | 0o600)
    call("semop", semaphore, struct.pack("Hhh", 0, 3, 0), 1)
    assert call("semctl", semaphore, 0, 12) == 3  # GETVAL
    call("semctl", semaphore, 0, IPC_REMOVE)
    call("msgsnd", queue, struct.pack("l", 7) + b"message", 7, 0)
    got = ctypes.create_string_buffer(64)
    assert call("msgrcv", queue, got, 56, 7, 0) == 7
    assert got.raw[8:15] == b"message"
    call("msgctl", queue, IPC_REMOVE, None)


def test_posix_message_queues() -> None:
    queue = call("mq_open", b"/needs", os.O_CREAT | os.O_RDWR, 0o600, None)
    call("mq_unlink", b"/needs")
    call("mq_send", queue, b"message", 7, 3)
    got, priority = ctypes.create_string_buffer(8192), ctypes.c_uint()
    assert call("mq_receive", queue, got, 8192, ctypes.byref(priority)) == 7
    assert (got.value, priority.value) == (b"message", 3)
    os.close(queue)


def test_inotify_tells_of_a_new_file(here: Path) -> None:
    watch = call("inotify_init1", 0)
    call("inotify_add_watch", watch, os.fsencode(here), 0x100)  # IN_CREATE
    (here / "new").touch()
    _, mask, _, length = struct.unpack_from("iIII", event := os.read(watch, 4096))
    assert (mask, event[16 : 16 + length].rstrip(b"\0")) == (0x100, b"new")
    os.close(watch)


def test_fanotify_tells_who_closed_a_file(here: Path) -> None:
    watch = call("fanotify_init", 0, os.O_RDONLY)
    call("fanotify_mark", watch, 1, ctypes.c_uint64(0x8), -100, os.fsencode(here / "file"))  # FAN_CLOSE_WRITE
    (here / "file").write_bytes(b"changed")
    _, _, _, _, mask, fd, pid = struct.unpack_from("=IBBHQii", os.read(watch, 4096))
    assert (mask, pid, os.pread(fd, 100, 0)) == (0x8, os.getpid(), b"changed")
    os.close(fd)
    os.close(watch)


def test_memory_files_that_are_sealed() -> None:
    fd = os.memfd_create("sealed", os.MFD_ALLOW_SEALING)
    os.write(fd, b"content")
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    with pytest.raises(PermissionError):
        os.write(fd, b"more")
    os.close(fd)


def test_attributes_and_handles_of_files_in_memory(here: Path) -> None:
    os.setxattr(here / "file", "user.kind", b"text")
    assert os.getxattr(here / "file", "user.kind") == b"text"
    handle, mount = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 136), ctypes.c_int()
    call("name_to_handle_at", -100, os.fsencode(here / "file"), handle, ctypes.byref(mount), 0)
    folder = os.open(here, os.O_RDONLY)
    fd = call("open_by_handle_at", folder, handle, os.O_RDONLY)
    assert os.read(fd, 9) == b"forty-two"
    os.close(fd)
    os.close(folder)


def test_descriptors_for_events_timers_and_signals() -> None:
    event, timer = os.eventfd(0), os.timerfd_create(time.CLOCK_MONOTONIC)
    signals = call("signalfd", -1, struct.pack("Q", 1 << (signal.SIGUSR1 - 1)).ljust(128, b"\0"), 0)
    old = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    with select.epoll() as poll:
        for fd in (event, timer, signals):
            poll.register(fd, select.EPOLLIN)
        assert poll.poll(0) == []
        os.timerfd_settime(timer, initial=60)
        before = time.monotonic_ns()
        assert poll.poll() == [(timer, select.EPOLLIN)]
        assert 60 <= raw_calls.passed_s(before) < 60.001
        os.eventfd_write(event, 1)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert {fd for fd, _ in poll.poll()} == {event, timer, signals}
    assert struct.unpack_from("I", os.read(signals, 128))[0] == signal.SIGUSR1
    signal.pthread_sigmask(signal.SIG_SETMASK, old)
    for fd in (event, timer, signals):
        os.close(fd)


def test_a_unix_socket_passes_a_file_and_says_who_asks(here: Path) -> None:
    near, far = socket.socketpair()
    with near, far, (here / "file").open("rb") as file:
        socket.send_fds(near, [b"x"], [file.fileno()])
        _, (fd,), *_ = socket.recv_fds(far, 1, 1)
        assert os.read(fd, 9) == b"forty-two"
        os.close(fd)
        pid, uid, _ = struct.unpack("iII", far.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        assert (pid, uid) == (os.getpid(), 0)
    (server := socket.socket(socket.AF_UNIX)).bind(str(here / "socket"))
    server.listen()
    assert str(here / "socket") in subprocess.run(["ss", "-xl"], check=True, capture_output=True, text=True).stdout
    server.close()


def test_a_tunnel_device_gives_the_packets_of_its_route() -> None:
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH22x", b"needs0", 0x1001))  # TUNSETIFF: IFF_TUN | IFF_NO_PI
    for words in ("addr add 10.9.9.1/24 dev needs0", "link set needs0 up"):
        subprocess.run(["ip", *words.split()], check=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"hello", ("10.9.9.2", 9))
    packets = iter(lambda: os.read(tun, 2048), b"")
    assert next(packet for packet in packets if packet[0] >> 4 == 4)[28:] == b"hello"
    os.close(tun)


def test_ipv6_carries_a_stream() -> None:
    with (
        socket.create_server(("::1", 0), family=socket.AF_INET6) as server,
        socket.create_connection(server.getsockname()[:2]) as client,
    ):
        accepted, _ = server.accept()
        client.send(b"hello")
        assert accepted.recv(10) == b"hello"
        accepted.close()


def test_a_user_namespace_is_anybodys() -> None:
    argv = ["setpriv", "--reuid=65534", "--clear-groups", "unshare", "--user", "--map-root-user", "id", "-u"]
    assert subprocess.run(argv, check=True, capture_output=True, text=True).stdout == "0\n"
