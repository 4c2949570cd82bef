"""Fragments of a configuration: what the last one says holds, and what a kernel did not keep is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.lab import build_kernel, kernel_config
from emulator.lab.kernel_version import KernelVersion, of_makefile

OLD, NEW = KernelVersion(6, 12), KernelVersion(7, 2)
SYMBOLS = st.sampled_from(["CONFIG_A", "CONFIG_B", "CONFIG_TCP_CONG_BIC", "CONFIG_UML_NET"])
VALUES = st.sampled_from(["y", "n", "5", '"text"'])
FRAGMENTS = st.lists(st.dictionaries(SYMBOLS, VALUES), min_size=1, max_size=4)


def text(values: dict[str, str]) -> str:
    return "".join(f"{symbol}={value}\n" for symbol, value in values.items())


@given(FRAGMENTS)
def test_the_last_fragment_that_names_a_symbol_decides(fragments: list[dict[str, str]]) -> None:
    wanted: dict[str, str] = {}
    for values in fragments:
        wanted |= values
    lines = kernel_config.merged([text(values) for values in fragments], OLD)
    assert kernel_config.parse(lines) == kernel_config.parse(text(wanted))
    assert kernel_config.lost(lines, lines) == []


@given(FRAGMENTS, SYMBOLS)
def test_what_a_kernel_did_not_keep_is_named(fragments: list[dict[str, str]], symbol: str) -> None:
    asked = kernel_config.merged([text(values) for values in fragments], OLD)
    line = kernel_config.parse(asked).get(symbol)
    got = "".join(one + "\n" for one in asked.splitlines() if one != line)
    # A symbol that no Kconfig knows is not set either.
    expected = [] if line is None or line.startswith("#") else [line]
    assert kernel_config.lost(asked, got) == expected
    assert kernel_config.lost(f"# {symbol} is not set\n", f"{symbol}=y\n") == [f"# {symbol} is not set"]


@pytest.mark.parametrize(
    ("line", "has", "lacks"), [("CONFIG_UML_NET=y", OLD, NEW), ("CONFIG_NET_SCH_DUALPI2=y", NEW, OLD)]
)
def test_what_a_version_does_not_have_is_left_out_unless_the_user_asks_for_it(
    line: str, has: KernelVersion, lacks: KernelVersion
) -> None:
    own = build_kernel.CONFIG.read_text()
    assert line in kernel_config.merged([own], has)
    assert line not in kernel_config.merged([own], lacks)
    assert line in kernel_config.merged([own, f"{line}\n"], lacks)


@pytest.mark.parametrize(
    ("line", "why"),
    [("CONFIG_NET_SCH_X=m", "loads no modules"), ("NET=y", "neither CONFIG_NAME=value"), ("?", "line 2")],
)
def test_a_line_that_is_none_is_refused_with_its_number(line: str, why: str) -> None:
    with pytest.raises(ValueError, match=r"^line 2: ") as error:
        kernel_config.parse(f"# a comment\n{line}\n")
    assert why in str(error.value)


def test_the_congestion_controls_of_a_configuration() -> None:
    config = (
        "CONFIG_TCP_CONG_ADVANCED=y\nCONFIG_TCP_CONG_HSTCP=y\n# CONFIG_TCP_CONG_BIC is not set\nCONFIG_TCP_CONG_NV=y\n"
    )
    assert kernel_config.congestion_controls(config) == ("highspeed", "nv", "reno")


@pytest.mark.parametrize(
    ("lines", "said", "mode"),
    [
        ("VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\nEXTRAVERSION =\n", "6.12.117", "ptrace"),
        ("VERSION = 6\nPATCHLEVEL = 15\nSUBLEVEL = 0\nEXTRAVERSION = -rc3\n", "6.15.0-rc3", "ptrace"),
        ("VERSION = 6\nPATCHLEVEL = 16\nSUBLEVEL = 0\nEXTRAVERSION =\n", "6.16.0", "seccomp"),
        ("VERSION = 7\nPATCHLEVEL = 2\nSUBLEVEL = 13\nEXTRAVERSION =\n", "7.2.13", "seccomp"),
    ],
)
def test_the_version_and_the_mode_of_a_source(lines: str, said: str, mode: str) -> None:
    version = of_makefile(f"# SPDX\n{lines}NAME = Baby\n")
    assert (str(version), version.mode) == (said, mode)


def test_another_makefile_has_no_version() -> None:
    with pytest.raises(ValueError, match="does not set VERSION, PATCHLEVEL, SUBLEVEL, EXTRAVERSION"):
        of_makefile("all:\n\tgcc\n")
