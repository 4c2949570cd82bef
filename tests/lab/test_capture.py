"""Captured frames: each leaves one delay after it entered, two captures of the same are the same bytes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from support import pcapng_reader
from support.lab_cells import MBIT, MS, spec

from emulator.analysis.observed import CapturedFile
from emulator.control.appliance import Appliance
from emulator.control.capture import Capture, capturing
from emulator.errors import MeasureError
from emulator.experiment import run_cell
from emulator.experiment.cell_result import CellResult
from emulator.hosts.namespace import NamespaceHost
from emulator.hosts.tools import process
from emulator.kernel.netlink import NetlinkKernel
from emulator.model.impairment import Impairment
from emulator.model.topology import Lane, Topology

ONE_WAY_NS = 16 * MS
CLOCK_READINGS_NS = 2000
"""Some readings of the clock, 256 ns each, lie between a frame's entry and its stamp at the exit."""
STAR = Topology("star", "hub", tuple(Lane(name).with_rtt(2 * ONE_WAY_NS) for name in ("east", "west")))


def ping(topology: Topology, site: str, count: int = 5, *more: str) -> None:
    address = str(topology.address(site).ip)
    argv = ["ping", "-q", "-i", "0.2", "-c", str(count), *more, address]
    NamespaceHost(topology.hub).run(argv, 60).checked()


def by_name(files: tuple[CapturedFile, ...]) -> dict[str, CapturedFile]:
    return {file.name: file for file in files}


def test_every_frame_leaves_one_delay_after_it_entered(appliance: Appliance, tmp_path: Path) -> None:
    appliance.up(STAR)
    capture = Capture(appliance, tmp_path / "frames")
    ping(STAR, "east", 5, "-s", "1000")
    files = by_name(capture.stop())
    assert set(files) == {
        f"{lane}.{way}.{side}.pcapng"
        for lane in ("east", "west") for way in ("outbound", "inbound") for side in ("in", "out")
    }  # fmt: skip
    for way in ("outbound", "inbound"):
        entered, left = (
            pcapng_reader.read(tmp_path / "frames" / f"east.{way}.{side}.pcapng") for side in ("in", "out")
        )
        assert [f.data for f in entered.frames] == [f.data for f in left.frames]
        assert sum(f.length == 1042 for f in entered.frames) == 5, "five echoes of 1000 bytes, whole"
        assert all(f.inbound for f in entered.frames)
        assert not any(f.inbound for f in left.frames)
        for one, other in zip(entered.frames, left.frames, strict=True):
            assert 0 <= other.at_ns - one.at_ns - ONE_WAY_NS < CLOCK_READINGS_NS
        assert json.loads(entered.section[1])["east"]["rtt"] == "32ms"


def test_the_result_names_each_files_hash_and_frames(appliance: Appliance, tmp_path: Path) -> None:
    appliance.up(STAR)
    with capturing(appliance, tmp_path / "frames", 0, ["west"]) as files:
        ping(STAR, "west")
    assert {file.name.partition(".")[0] for file in files} == {"west"}
    for file in files:
        path = tmp_path / "frames" / file.name
        assert file.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        found = pcapng_reader.read(path)
        assert (file.frames, file.dropped) == (len(found.frames), 0)
        assert (found.received, found.dropped) == (file.frames, 0)


def test_of_long_frames_the_beginning_is_kept(appliance: Appliance, tmp_path: Path) -> None:
    appliance.up(STAR)
    with capturing(appliance, tmp_path, 96):
        ping(STAR, "east", 2, "-s", "1000")
    found = pcapng_reader.read(tmp_path / "east.outbound.in.pcapng")
    assert found.snap_bytes == 96
    assert {(len(f.data), f.length) for f in found.frames if f.length > 96} == {(96, 1042)}


def test_impairments_show_between_the_two_files(appliance: Appliance, tmp_path: Path) -> None:
    """With loss what left is a part of what entered; with a rate the frames leave one serialization time apart."""
    lossy = Impairment(ONE_WAY_NS, loss_p32=2**31)
    slow = Impairment(ONE_WAY_NS, rate_bps=MBIT)
    star = Topology("star", "hub", (Lane("east", lossy, Impairment()), Lane("west", slow, slow)), seed=3)
    appliance.up(star)
    with capturing(appliance, tmp_path, 0):
        NamespaceHost("hub").run(["ping", "-q", "-i", "0.05", "-c", "40", str(star.address("east").ip)], 60)
        ping(star, "west", 10, "-i", "0.002", "-s", "1000")
    entered, left = (pcapng_reader.read(tmp_path / f"east.outbound.{side}.pcapng").frames for side in ("in", "out"))
    assert 0 < len(left) < len(entered)
    kept = iter(frame.data for frame in entered)
    assert all(frame.data in kept for frame in left), "in their order"
    echoes = [f.at_ns for f in pcapng_reader.read(tmp_path / "west.outbound.out.pcapng").frames if f.length == 1042]
    assert echoes[-1] - echoes[-2] == pytest.approx(1042 * 8 * 1000, abs=CLOCK_READINGS_NS)


def test_a_vlan_tag_is_kept(appliance: Appliance, tmp_path: Path) -> None:
    appliance.up(STAR)
    with capturing(appliance, tmp_path, 0, ["east"]):
        for host, address in (("hub", "10.9.0.1/24"), ("east", "10.9.0.2/24")):
            for argv in (
                ["ip", "link", "add", "tagged", "link", NamespaceHost(host).interface, "type", "vlan", "id", "42"],
                ["ip", "address", "add", address, "dev", "tagged"],
                ["ip", "link", "set", "tagged", "up"],
            ):
                NamespaceHost(host).run(argv, 5).checked()
        NamespaceHost("hub").run(["ping", "-c", "2", "10.9.0.2"], 20).checked()
    for side in ("in", "out"):
        frames = pcapng_reader.read(tmp_path / f"east.outbound.{side}.pcapng").frames
        tagged = [f for f in frames if f.data[12:16] == b"\x81\x00\x00\x2a"]
        assert [f.length for f in tagged if f.data[16:18] == b"\x08\x00"] == [102, 102], "98 bytes and the tag"


@contextmanager
def following(appliance: Appliance, folder: Path) -> Iterator[list[CapturedFile]]:
    found: list[CapturedFile] = []
    capture = Capture(appliance, folder, follow=lambda: Appliance(NetlinkKernel(), appliance.state_dir))
    try:
        yield found
    finally:
        found += capture.stop()


def test_lanes_that_come_up_later_are_captured_too_and_twice_if_twice(appliance: Appliance, tmp_path: Path) -> None:
    east = replace(STAR, lanes=STAR.lanes[:1])
    with following(appliance, tmp_path) as files:
        appliance.up(east)
        ping(STAR, "east", 2)
        appliance.up(STAR)
        ping(STAR, "west", 2)
        appliance.down()
        appliance.up(east)
        ping(STAR, "east", 2)
    names = {file.name for file in files}
    assert {"east.outbound.in.pcapng", "west.outbound.in.pcapng", "east.outbound.in-2.pcapng"} <= names
    assert "west.outbound.in-2.pcapng" not in names
    for name in ("east.outbound.in.pcapng", "west.outbound.in.pcapng", "east.outbound.in-2.pcapng"):
        icmp = [f for f in pcapng_reader.read(tmp_path / name).frames if f.length == 98]
        assert len(icmp) == 2, "none is missed"


def test_a_change_while_it_captures_shows_in_the_frames(appliance: Appliance, tmp_path: Path) -> None:
    appliance.up(STAR)
    with capturing(appliance, tmp_path, 0, ["east"]):
        ping(STAR, "east", 1)
        appliance.set_lane(STAR.lane("east").with_rtt(100 * MS))
        ping(STAR, "east", 1)
    entered, left = (pcapng_reader.read(tmp_path / f"east.outbound.{side}.pcapng").frames for side in ("in", "out"))
    delays = [b.at_ns - a.at_ns for a, b in zip(entered, left, strict=True) if a.length == 98]
    assert delays == pytest.approx([ONE_WAY_NS, 50 * MS], abs=CLOCK_READINGS_NS)


def test_a_full_disk_ends_the_capture_with_an_error_and_harms_no_lane(appliance: Appliance, tmp_path: Path) -> None:
    appliance.up(STAR)
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", small], check=True)
    try:
        capture = Capture(appliance, small)
        ping(STAR, "east", 80, "-s", "1400")
        with pytest.raises(MeasureError, match="is not complete: No space left on device; free space or lower --snap"):
            capture.stop()
    finally:
        subprocess.run(["umount", small], check=True)
    assert appliance.status().as_asked


def test_a_folder_that_cannot_be_made_is_refused_before_anything_starts(appliance: Appliance, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MeasureError, match=r"cannot capture into .*file: File exists"):
        Capture(appliance, tmp_path / "file")


def cell_of(appliance: Appliance, folder: Path | None) -> CellResult:
    """One cell of the same seed, with its frames captured or not."""
    one = spec(rate_mbit=20, rtt_ms=40)
    captures = run_cell.CaptureTo(folder, 128) if folder else None
    return run_cell.execute(one, appliance, captures=captures).result


@pytest.mark.usefixtures("pinged")
def test_capturing_does_not_change_what_a_cell_says(appliance: Appliance, tmp_path: Path) -> None:
    bare, seen = cell_of(appliance, None), cell_of(appliance, tmp_path)
    assert seen.steady_bytes_per_s == pytest.approx(bare.steady_bytes_per_s, rel=1e-3)
    assert (seen.judgement.kind, seen.judgement.invalid) == (bare.judgement.kind, ())
    assert len(seen.captures) == 4
    data = pcapng_reader.read(tmp_path / "far.outbound.out.pcapng").frames
    assert sum(f.length for f in data) > seen.transfer.received_bytes
    assert CellResult.from_json(json.loads(json.dumps(seen.to_json()))) == seen


def longhaul(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "emulator", *words]
    return subprocess.run(argv, text=True, capture_output=True, check=False, env=os.environ)


def test_the_command_passes_on_its_commands_output_and_code(tmp_path: Path) -> None:
    (tmp_path / "star.yaml").write_text("name: star\nhub: hub\nlanes:\n  east: {rtt: 32ms}\n")
    script = f"longhaul up {tmp_path}/star.yaml && ip netns exec lh-hub ping -qc2 10.77.0.2 && longhaul down; exit 7"
    done = longhaul("capture", str(tmp_path / "frames"), "--json", "--", "sh", "-c", script)
    assert done.returncode == 7
    assert "star is up" in done.stdout
    files = json.loads(done.stderr)["files"]
    assert [file["name"] for file in files][-1] == "east.outbound.out.pcapng"
    assert all(file["frames"] >= 2 for file in files)


def test_without_a_command_something_must_be_up(appliance: Appliance, tmp_path: Path) -> None:
    done = longhaul("capture", str(tmp_path))
    assert (done.returncode, done.stderr.strip()) == (
        2, "nothing is up: longhaul up FILE, or give a COMMAND that brings lanes up",
    )  # fmt: skip


def test_a_capture_for_a_time_takes_that_time(tmp_path: Path) -> None:
    (tmp_path / "star.yaml").write_text("name: star\nhub: hub\nlanes:\n  east: {rtt: 32ms}\n")
    assert longhaul("up", str(tmp_path / "star.yaml")).returncode == 0
    try:
        ping_ = process.start(["ping", "-i", "0.5", "10.77.0.2"], "lh-hub")
        before_ns = time.monotonic_ns()
        with ping_:
            done = longhaul("capture", str(tmp_path / "frames"), "--for", "10s", "--lane", "east", "--json")
        assert done.returncode == 0, done.stderr
        assert 10 * 10**9 <= time.monotonic_ns() - before_ns < 12 * 10**9
        frames = {file["name"]: file["frames"] for file in json.loads(done.stdout)["files"]}
        assert 20 <= frames["east.outbound.in.pcapng"] <= 24
        wrong = longhaul("capture", str(tmp_path), "--lane", "west")
        assert (wrong.returncode, ": use east" in wrong.stderr) == (2, True)
    finally:
        assert longhaul("down").returncode == 0
