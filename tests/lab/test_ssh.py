"""Hosts over SSH: a real sshd in each of three namespaces; what is set there is put back whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.ssh_machines import Machines, machines, sh

from emulator.errors import LonghaulError, MeasureError, MissingError, RefusedError
from emulator.hosts import tcp_profiles
from emulator.hosts.ssh import SshHost
from emulator.hosts.ssh_connection import Connection
from emulator.hosts.tools import program_ends
from emulator.model import tcp_profile
from emulator.model.program import Program
from emulator.model.tcp_profile import Profile

PROFILE = Profile(
    "all", tcp_rmem=(4096, 2**20, 2**24), tcp_wmem=(4096, 2**20, 2**24), congestion_control="reno", initcwnd=40,
    qdisc="fq",
)  # fmt: skip
LEASE_S = 5
HOLDS = """\
import pathlib, sys, time
from emulator.hosts import ssh, ssh_connection, tcp_profiles
from emulator.model.tcp_profile import Profile
far = ssh_connection.Connection("far-machine", pathlib.Path(sys.argv[1]))
far.open()
PROFILE = Profile("p", tcp_rmem=(4096, 5000, 6000), initcwnd=7, qdisc="fq")
with tcp_profiles.applied(PROFILE, ssh.SshHost("far", "10.77.0.3", far)):
    time.sleep(9999)
"""
"""Holds a profile for ever."""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with machines(tmp_path_factory.mktemp("keys"), "hub", ("near", "far")) as made:
        made.inside("far", "ip route change 10.77.0.0/24 dev lane0 proto kernel scope link src 10.77.0.3 initrwnd 33")
        yield made


@pytest.fixture
def connection(three: Machines, tmp_path: Path) -> Iterator[Connection]:
    one = Connection("far-machine", tmp_path / "s")
    one.open()
    yield one
    one.close()


@pytest.fixture
def host(connection: Connection) -> SshHost:
    return SshHost("far", "10.77.0.3", connection, LEASE_S)


def seen(three: Machines) -> str:
    """What the far machine is like, by programs that are none of ours."""
    shown = "grep . /proc/sys/net/ipv4/tcp_*; ip route show dev lane0; ip -br addr show lane0; tc qdisc show"
    return three.inside("far", shown)


def processes(sign: str) -> list[int]:
    found = [
        (path.parent.name, path.read_bytes().replace(b"\0", b" ")) for path in Path("/proc").glob("[0-9]*/cmdline")
    ]
    return [int(pid) for pid, words in found if sign.encode() in words and int(pid) != os.getpid()]


def after(condition: Callable[[], bool], longest_s: float) -> float:
    """The virtual seconds until it holds."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < longest_s
        time.sleep(0.25)
    return time.monotonic() - begun


def test_output_is_clean_and_the_exit_code_comes_through(host: SshHost) -> None:
    done = host.run(["sh", "-c", 'echo "$1"; echo err >&2; exit 3', "sh", "two  words; $HOME"], 10)
    assert (done.stdout, done.stderr, done.exit_code) == ("two  words; $HOME\n", "err\n", 3)
    assert host.run(["sh", "-c", "echo $LC_ALL; cat"], 10).stdout == "C\n"
    assert host.run(["sh", "-c", "exit 255"], 10).exit_code == 254
    assert host.interface == "lane0"


def test_a_program_ends_with_its_block_and_when_it_is_late(host: SshHost) -> None:
    with host.start(["sleep", "12345"]):
        after(lambda: len(processes("sleep 12345")) > 1, 5)
    assert host.run(["pgrep", "-x", "sleep"], 10).stdout == "", "the block left it running"
    after(lambda: processes("sleep 12345") == [], 5)
    with pytest.raises(MeasureError, match="did not end within 2 s"):
        host.run(["sleep", "12345"], 2)
    after(lambda: processes("sleep 12345") == [], 5)


def test_a_program_ends_with_all_that_it_started(host: SshHost) -> None:
    """As in a namespace: a server's processes must not hold its port when the next cell begins."""
    with host.start(["sh", "-c", "trap '' TERM; sleep 12345 & sleep 12345 & wait; wait"]):
        after(lambda: len(host.run(["pgrep", "-x", "sleep"], 10).stdout.split()) == 2, 5)
    after(lambda: processes("sleep 12345") == [], 5)


def test_what_is_not_installed_there_is_named(host: SshHost) -> None:
    with pytest.raises(MissingError, match=r"^far-machine: no-such-tool -x is not installed there"):
        host.run(["no-such-tool", "-x"], 10)


def test_an_address_that_the_machine_has_not(connection: Connection) -> None:
    with pytest.raises(MissingError, match=r"no interface that is up has the address 10.77.0.9 of far: ip addr add"):
        _ = SshHost("far", "10.77.0.9", connection).interface


@pytest.mark.parametrize(
    ("destination", "said"),
    [
        ("192.168.99.2", "its host key is not known here: connect once by hand"),
        ("nobody@far-machine", "no key of yours is accepted there: ssh-copy-id nobody@far-machine"),
        ("root@192.168.99.1", "no SSH server listens there: start sshd"),
        ("root@192.168.99.77", "no route leads to it: is it running"),
        ("root@10.99.99.99", "no route leads to it from here"),
        ("no-such-machine", "the name is unknown"),
    ],
)
def test_failures_to_connect_say_what_to_do(three: Machines, tmp_path: Path, destination: str, said: str) -> None:
    with pytest.raises(MissingError, match=said) as error:
        Connection(destination, tmp_path / "s").open()
    assert str(error.value).startswith(f"{destination}: ")


def test_a_host_key_that_has_changed_is_named_with_the_command_that_removes_it(three: Machines, tmp_path: Path) -> None:
    known = three.folder / "known_hosts"
    before = known.read_text()
    sh(f"ssh-keygen -q -t ed25519 -N '' -f {tmp_path}/other")
    other = " ".join((tmp_path / "other.pub").read_text().split()[:2])
    known.write_text(f"{three.management('far')} {other}\n")
    try:
        with pytest.raises(MissingError, match="its host key has changed: find out why, then ssh-keygen") as error:
            Connection("far-machine", tmp_path / "s").open()
        sh(str(error.value).partition(", then ")[2].rpartition(" (")[0])
        with pytest.raises(MissingError, match="its host key is not known here"):
            Connection("far-machine", tmp_path / "s").open()
    finally:
        known.write_text(before)


def test_a_chatty_login_shell_is_named(three: Machines, tmp_path: Path) -> None:
    chatty = Path.home() / ".bashrc"
    chatty.write_text("echo Welcome\n")
    try:
        with pytest.raises(MissingError, match="prints 'Welcome' before anything else: make its start-up files print"):
            Connection("far-machine", tmp_path / "s").open()
    finally:
        chatty.unlink()


def test_a_profile_is_put_on_and_taken_off_exactly(three: Machines, host: SshHost) -> None:
    before = seen(three)
    with tcp_profiles.applied(PROFILE, host):
        time.sleep(3 * LEASE_S)
        during = seen(three)
        assert "tcp_rmem:4096\t1048576\t16777216" in during
        assert "tcp_congestion_control:reno" in during
        assert "src 10.77.0.3 initcwnd 40" in during
        assert "qdisc fq 77f0: dev lane0 root" in during
    assert seen(three) == before
    with pytest.raises(ZeroDivisionError), tcp_profiles.applied(PROFILE, host):
        _ = 1 / 0
    after(lambda: seen(three) == before, 5)
    assert processes("longhaul-keeper") == []


def test_a_qdisc_that_somebody_configured_stays(three: Machines, host: SshHost) -> None:
    three.inside("far", "tc qdisc add dev lane0 root handle 5: pfifo limit 77")
    before = seen(three)
    try:
        with (
            pytest.raises(RefusedError, match="far: lane0 has the qdisc pfifo 5:, which nobody could restore"),
            tcp_profiles.applied(PROFILE, host),
        ):
            pass
        assert "pfifo 5: dev lane0 root refcnt" in before
        after(lambda: seen(three) == before, 5)
    finally:
        three.inside("far", "tc qdisc del dev lane0 root")


def test_a_qdisc_that_the_kernel_lacks_is_told_and_leaves_nothing(
    three: Machines, host: SshHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = seen(three)
    monkeypatch.setattr(tcp_profile, "HOST_QDISCS", ("sfb",))
    wanted = "far: lane0 cannot have the qdisc sfb: Error: Specified qdisc kind is unknown: modprobe sch_sfb there"
    with pytest.raises(MissingError, match=wanted), tcp_profiles.applied(Profile("sfb", qdisc="sfb"), host):
        pass
    after(lambda: seen(three) == before, 5)


def test_a_setting_that_the_kernel_refuses_leaves_nothing(three: Machines, host: SshHost) -> None:
    before = seen(three)
    bad = Profile("bad", tcp_rmem=(4096, 5000, 6000), congestion_control="no")
    with (
        pytest.raises(MissingError, match="tcp_congestion_control cannot be read or set"),
        tcp_profiles.applied(bad, host),
    ):
        pass
    after(lambda: seen(three) == before, 5)


def test_what_is_the_machines_is_left_to_it_and_the_user_is_told(three: Machines, host: SshHost) -> None:
    """A container has no tcp_mem; the rest of `max` is put on there."""
    before = seen(three)
    with tcp_profiles.applied(tcp_profiles.maximum(10**9, 10**7), host) as unset:
        assert "tcp_rmem:4096\t131072\t6291456" in seen(three)
    assert [text.partition("; without it")[0] for text in unset] == [
        "max: far is a container, and tcp_mem belongs to its machine: run there "
        "sysctl -w net.ipv4.tcp_mem='4194304 4194304 4194304'"
    ]
    assert seen(three) == before


def test_killed_in_the_middle_it_is_put_back_at_once(three: Machines) -> None:
    """The whole of Longhaul and its ssh clients die by SIGKILL."""
    before = seen(three)
    victim = subprocess.Popen(["python3", "-c", HOLDS, str(three.folder / "s")], start_new_session=True)
    after(lambda: "initcwnd 7" in seen(three), 30)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert after(lambda: seen(three) == before, 10) < 3
    after(lambda: processes("far-machine") == processes("longhaul-keeper") == [], 10)


def test_cut_off_in_the_middle_it_is_put_back_after_the_lease(three: Machines, host: SshHost) -> None:
    before = seen(three)
    try:
        with pytest.raises(LonghaulError, match="far-machine: "), tcp_profiles.applied(PROFILE, host):
            sh("ip link set mgmt-far down")
            waited = after(lambda: seen(three) == before, 60)
            assert LEASE_S - LEASE_S / 4 - 1 <= waited <= LEASE_S + 2
            host.run(["true"], 120)
    finally:
        sh("ip link set mgmt-far up")


def test_a_lease_that_ran_out_voids_the_measurement(three: Machines, host: SshHost) -> None:
    before = seen(three)
    wanted = "no heartbeat for 5 s, so the host restored its settings: measure again"
    with pytest.raises(MeasureError, match=wanted), tcp_profiles.applied(PROFILE, host):
        sh("ip link set mgmt-far down")
        after(lambda: seen(three) == before, 60)
        sh("ip link set mgmt-far up")
    assert seen(three) == before


def test_a_killed_keeper_leaves_a_file_from_which_the_next_start_restores(three: Machines, host: SshHost) -> None:
    before = seen(three)
    with pytest.raises(LonghaulError), tcp_profiles.applied(PROFILE, host):
        for pid in processes("longhaul-keeper"):
            os.kill(pid, signal.SIGKILL)
        time.sleep(LEASE_S + 3)
        assert seen(three) != before
        host.run(["kill", "-9", "1000000"], 5).checked()
    assert seen(three) != before
    with tcp_profiles.applied(Profile("other", tcp_rmem=(4096, 5000, 6000)), host):
        assert "initcwnd" not in seen(three)
    assert seen(three) == before


def test_a_killed_guard_is_replaced_by_the_one_that_reads(three: Machines, host: SshHost) -> None:
    before = seen(three)
    with tcp_profiles.applied(PROFILE, host):
        for pid in processes(f" guard {LEASE_S} "):
            os.kill(pid, signal.SIGKILL)
    assert seen(three) == before


def test_a_lost_connection_is_said_at_the_end(three: Machines, connection: Connection) -> None:
    before, host = seen(three), SshHost("far", "10.77.0.3", connection, LEASE_S)
    wanted = "connection lost; the host restores its settings within 5 s"
    with pytest.raises(MeasureError, match=wanted), tcp_profiles.applied(PROFILE, host):
        for pid in processes("ControlMaster=yes"):
            os.kill(pid, signal.SIGKILL)
        after(lambda: processes("ControlMaster=yes") == [], 5)
    after(lambda: seen(three) == before, 5)


def test_a_connection_that_is_lost_while_a_program_runs_is_no_time_limit(host: SshHost) -> None:
    def cut() -> None:
        for pid in processes("ControlMaster=yes"):
            os.kill(pid, signal.SIGKILL)

    cutter = threading.Timer(2, cut)
    cutter.start()
    with (
        pytest.raises(MeasureError, match=r"far-machine: connection lost \("),
        program_ends.opened(host, Program("p", "sleep 60"), {}) as end,
        program_ends.run_folder(end, 0) as folder,
    ):
        program_ends.timed(end, folder, 0)
    cutter.join()
    assert host.run(["ls", "/tmp"], 10).stdout.count("longhaul-program") == 0


def test_two_at_a_time_are_refused(three: Machines, host: SshHost) -> None:
    before = seen(three)
    with tcp_profiles.applied(PROFILE, host):
        during = seen(three)
        with (
            pytest.raises(RefusedError, match="another measurement is running there"),
            tcp_profiles.applied(PROFILE, host),
        ):
            pass
        assert seen(three) == during
    assert seen(three) == before


def test_a_user_who_is_not_root_needs_sudo(three: Machines, worker: Connection) -> None:
    before, host = seen(three), SshHost("far", "10.77.0.3", worker, LEASE_S)
    wanted = r"sudo: .*; log in as root, or allow sudo there without a password"
    with pytest.raises(MissingError, match=wanted), tcp_profiles.applied(PROFILE, host):
        pass
    Path("/etc/sudoers").write_text("root ALL=(ALL) ALL\nworker ALL=(ALL) NOPASSWD: ALL\n")
    with tcp_profiles.applied(PROFILE, host):
        assert "src 10.77.0.3 initcwnd 40" in seen(three)
    assert seen(three) == before
    with host.start(["sleep", "54321"], as_root=True):
        after(lambda: len(processes("sleep 54321")) > 1, 5)
    after(lambda: processes("sleep 54321") == [], 5)


@pytest.fixture
def worker(three: Machines, tmp_path: Path) -> Iterator[Connection]:
    """A user who is not root."""
    passwd, pam = Path("/etc/passwd"), [Path("/etc/pam.d/sudo"), Path("/etc/pam.d/other")]
    texts = {path: path.read_text() for path in (passwd, *pam, Path("/etc/sudoers"))}
    for path in pam:  # the image has no common-auth, which they include
        path.write_text("".join(f"{kind} required pam_permit.so\n" for kind in ("auth", "account", "session")))
    passwd.write_text(texts[passwd] + "worker:x:1000:1000::/tmp:/bin/sh\n")
    sh(f"chmod 755 {three.folder.parents[0]} {three.folder.parents[1]} {three.folder}")
    # The image may have been unpacked by somebody else, as whom sudo would run.
    sh("cp /usr/bin/sudo /tmp/sudo && mv /tmp/sudo /usr/bin/sudo && chmod 4755 /usr/bin/sudo")
    one = Connection("worker@far-machine", tmp_path / "s")
    one.open()
    yield one
    one.close()
    for path, text in texts.items():
        path.write_text(text)
