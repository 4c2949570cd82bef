"""Profiles: what max computes, what a profile file may say, and what is said of settings that do nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.analysis.tcp_path import bdp_bytes
from emulator.errors import InputError
from emulator.hosts import tcp_profiles
from emulator.model.impairment import Buffer, Impairment
from emulator.model.tcp_profile import Profile
from emulator.model.topology import Lane

MIB, MS = 2**20, 10**6
TEN_GBIT = 10**10


def test_default_changes_nothing() -> None:
    assert tcp_profiles.sysctls_of(tcp_profiles.DEFAULT) == {}


def test_founding_is_the_founding_one() -> None:
    assert tcp_profiles.sysctls_of(tcp_profiles.FOUNDING) == {
        "net.ipv4.tcp_rmem": "4096 8388608 33554432",
        "net.ipv4.tcp_wmem": "4096 8388608 33554432",
        "net.ipv4.tcp_no_metrics_save": "1",
    }


def test_max_fills_pipe_and_queue_but_drops_nothing() -> None:
    found = tcp_profiles.maximum(TEN_GBIT, 32 * MS)
    assert found.tcp_rmem == found.tcp_wmem == (4096, 131072, 101_333_333)
    window = 101_333_333 * 3 // 4
    assert bdp_bytes(TEN_GBIT, 32 * MS) * 1.8 < window < bdp_bytes(TEN_GBIT, 32 * MS) * 2


def test_max_heeds_a_shallow_buffer() -> None:
    assert tcp_profiles.maximum(TEN_GBIT, 32 * MS, 1_000_000).tcp_rmem == (4096, 131072, 54_533_333)


@given(st.integers(8, 10**12), st.integers(0, 10**10))
def test_max_stays_where_the_kernels_arithmetic_works(rate_bps: int, rtt_ns: int) -> None:
    found = tcp_profiles.maximum(rate_bps, rtt_ns)
    assert found.tcp_rmem and found.tcp_mem
    assert 6 * MIB <= found.tcp_rmem[2] < 2**30
    assert found.tcp_mem[0] * 4096 >= 16 * found.tcp_rmem[2]


def test_choose_knows_max_and_names_the_others() -> None:
    known = tcp_profiles.load_profiles()
    slow, fast = Impairment(rate_bps=10**7, buffer=Buffer(bytes=2**20)), Impairment()
    lane = Lane("far", slow, fast, line_rate_bps=TEN_GBIT).with_rtt(32 * MS)
    assert tcp_profiles.choose("default", known, lane, lane.outbound) == tcp_profiles.DEFAULT
    of_slow, of_fast = tcp_profiles.maximum(10**7, 32 * MS, 2**20), tcp_profiles.maximum(TEN_GBIT, 32 * MS)
    assert tcp_profiles.choose("max", known, lane, lane.outbound) == of_slow != of_fast
    assert tcp_profiles.choose("max", known, lane, lane.outbound, lane.inbound) == of_fast
    with pytest.raises(InputError) as error:
        tcp_profiles.choose("fast", known, lane, lane.outbound)
    assert str(error.value) == "--tcp-profile: there is no TCP profile 'fast': use default, founding or max"


GOOD = """\
office:
  tcp_rmem: 4KiB 128KiB 16MiB
  tcp_wmem: [4096, 16384, 16MiB]
  tcp_mem: 100000 200000 300000
  congestion_control: bbr
  no_metrics_save: true
  initcwnd: 40
  tcp_ecn: 1
  qdisc: fq
"""


def test_a_profile_file_adds_profiles(tmp_path: Path) -> None:
    file = tmp_path / "profiles.yaml"
    file.write_text(GOOD)
    known = tcp_profiles.load_profiles(file)
    assert list(known) == ["default", "founding", "office"]
    assert known["office"] == Profile(
        "office",
        tcp_rmem=(4096, 131072, 16 * MIB),
        tcp_wmem=(4096, 16384, 16 * MIB),
        tcp_mem=(100000, 200000, 300000),
        congestion_control="bbr",
        no_metrics_save=True,
        initcwnd=40,
        tcp_ecn=1,
        qdisc="fq",
    )
    assert tcp_profiles.sysctls_of(known["office"])["net.ipv4.tcp_ecn"] == "1"


def test_a_qdisc_that_no_host_has_at_its_root_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "profiles.yaml"
    file.write_text("paced:\n  qdisc: netem\n")
    with pytest.raises(InputError) as error:
        tcp_profiles.load_profiles(file)
    assert str(error.value).endswith(
        "profiles.yaml:2: paced.qdisc: qdisc 'netem' is not one of fq, fq_codel, pfifo_fast"
    )


def test_a_value_of_tcp_ecn_that_no_kernel_has_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "profiles.yaml"
    file.write_text("marked:\n  tcp_ecn: 6\n")
    with pytest.raises(InputError) as error:
        tcp_profiles.load_profiles(file)
    assert str(error.value).endswith("profiles.yaml:2: marked.tcp_ecn: tcp_ecn 6 is not within 0..5")


BAD = """\
max:
  initcwnd: 10
office:
  tcp_rmem: 4KiB 16MiB
  tcp_mem: 4KiB 8 9
  initcwnd: many
  no_metrics_save: perhaps
  speed: full
shrinking:
  tcp_wmem: 9 8 7
  congestion_control: [bbr]
flat: 3
"""

MISTAKES = """\
profiles.yaml:1: max: is a built-in profile: choose another name
profiles.yaml:4: office.tcp_rmem: use three values: minimum, default, maximum
profiles.yaml:5: office.tcp_mem: '4KiB' is not a whole number
profiles.yaml:6: office.initcwnd: 'many' is not a whole number
profiles.yaml:7: office.no_metrics_save: 'perhaps' is not one of true, false
profiles.yaml:8: office.speed: unknown key; the keys are tcp_rmem, tcp_wmem, tcp_mem, congestion_control, \
no_metrics_save, initcwnd, initrwnd, tcp_ecn, qdisc
profiles.yaml:10: shrinking.tcp_wmem: tcp_wmem (9, 8, 7) is not in rising order: use minimum <= default <= maximum
profiles.yaml:11: shrinking.congestion_control: use one value
profiles.yaml:12: flat: use a mapping such as 'tcp_rmem: 4KiB 8MiB 32MiB'"""


def test_every_mistake_is_told_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("profiles.yaml").write_text(BAD)
    with pytest.raises(InputError) as error:
        tcp_profiles.load_profiles("profiles.yaml")
    assert str(error.value) == MISTAKES


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none.yaml: cannot be read: No such file or directory"):
        tcp_profiles.load_profiles(tmp_path / "none.yaml")


def test_settings_that_do_nothing_are_said() -> None:
    assert tcp_profiles.notes(Profile("p", initrwnd=100)) == [
        "p: initrwnd can only lower the first window; to raise it, raise tcp_rmem's second value at the receiver "
        "(Linux 6.12 and later)"
    ]
    assert tcp_profiles.notes(Profile("p", initcwnd=100)) == [
        "p: initcwnd above 45 has no effect while the receiver's first window is 64 kB: raise tcp_rmem's second "
        "value too"
    ]
    assert tcp_profiles.notes(Profile("p", initcwnd=100, tcp_rmem=(4096, 8 * MIB, 8 * MIB))) == []
    assert tcp_profiles.notes(Profile("p", initcwnd=45)) == []


@pytest.mark.parametrize("name", ["../../outside", "a/b", ".hidden", "x" * 41, "two words"])
def test_a_name_that_cannot_be_in_the_names_of_files_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "profiles.yaml").write_text(f"{name}: {{initcwnd: 10}}\n")
    with pytest.raises(InputError, match="is no name of a TCP profile"):
        tcp_profiles.load_profiles(tmp_path / "profiles.yaml")
