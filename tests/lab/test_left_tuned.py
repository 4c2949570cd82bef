"""A measurement in namespaces that dies by SIGKILL: what it had set is put back by whoever comes next."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support import oracle

from emulator.control.appliance import Appliance
from emulator.control.local import local
from emulator.errors import RefusedError
from emulator.hosts import saved_settings, tcp_profiles
from emulator.hosts.namespace import NamespaceHost
from emulator.model.impairment import Impairment
from emulator.model.tcp_profile import Profile
from emulator.model.topology import Lane, Topology

NEAR, FAR = NamespaceHost("near"), NamespaceHost("far")
WAY = Impairment(delay_ns=10**7)
TOPOLOGY = Topology("lane", "near", (Lane("far", WAY, WAY),))
TUNED = Profile("tuned", tcp_rmem=(4096, 5000, 6000), tcp_mem=(10**6, 10**6, 10**6), initcwnd=7, qdisc="fq")
MACHINES = "net.ipv4.tcp_mem = 1000000\t1000000\t1000000"


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Appliance]:
    with closing(local(tmp_path)) as appliance:
        appliance.up(TOPOLOGY)
        yield appliance
        appliance.down()


def seen() -> str:
    """The machine and the hosts, by programs that are none of ours."""
    inside = "".join(
        f"ip netns exec {host.namespace} sysctl net.ipv4.tcp_rmem net.ipv4.tcp_wmem; ip -n {host.namespace} route;"
        f"tc -n {host.namespace} qdisc show;"
        for host in (NEAR, FAR)
    )
    return oracle.sh(f"sysctl net.ipv4.tcp_mem; {inside}").replace(" linkdown", "")


def die_in_the_middle() -> None:
    """A process that has put a profile on, and cannot take it off any more."""
    pid = os.fork()
    if pid == 0:
        with tcp_profiles.applied(TUNED, NEAR, FAR):
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def test_the_daemon_puts_it_back(appliance: Appliance) -> None:
    before = seen()
    die_in_the_middle()
    left = seen()
    marks = (MACHINES, "4096\t5000\t6000", "initcwnd 7", "qdisc fq 77f0: dev")
    assert [left.count(mark) for mark in marks] == [1, 2, 2, 2]
    appliance.repair()
    assert seen() == before


def test_the_next_measurement_starts_from_what_was(appliance: Appliance) -> None:
    before = seen()
    die_in_the_middle()
    with tcp_profiles.applied(Profile("other", tcp_wmem=(4096, 5000, 6000)), FAR):
        assert "initcwnd" not in seen()
        assert MACHINES not in seen()
    assert seen() == before


def test_one_that_is_at_work_is_left_alone(appliance: Appliance) -> None:
    before = seen()
    with tcp_profiles.applied(TUNED, NEAR, FAR):
        during = seen()
        appliance.repair()
        with (
            pytest.raises(RefusedError, match="lh-far: another measurement is running there"),
            FAR.kept([], routes=False, qdisc=False),
        ):
            pass
        assert seen() == during != before
    assert seen() == before


def test_down_puts_back_what_is_the_machines(appliance: Appliance) -> None:
    before = oracle.sh("sysctl net.ipv4.tcp_mem")
    die_in_the_middle()
    appliance.down()
    assert oracle.sh("sysctl net.ipv4.tcp_mem") == before
    assert list(saved_settings.FOLDER.glob("*.json")) == []


def test_hosts_of_the_same_name_that_came_later_are_left_alone(appliance: Appliance) -> None:
    before = oracle.sh("sysctl net.ipv4.tcp_mem")
    die_in_the_middle()
    names = (NEAR.namespace, FAR.namespace)
    oracle.sh("".join(f"ip netns del {name}; ip netns add {name};" for name in names))
    oracle.sh("".join(f"ip netns exec {name} sysctl -w net.ipv4.tcp_rmem='4096 7000 8000';" for name in names))
    assert saved_settings.recover() == []
    assert seen().count("4096\t7000\t8000") == 2
    assert oracle.sh("sysctl net.ipv4.tcp_mem") == before
