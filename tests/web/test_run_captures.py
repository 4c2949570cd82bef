"""Files of captured frames of a run by the API: which are given out, and to whom."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace
from support import made_results
from support.web_daemon import TOKENS, House, problem, until

from emulator.analysis.observed import CapturedFile
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Execution

FRAMES = b"\x0a\x0d\x0d\x0a frames"
FILE = "hub-out.pcapng"


def captured(spec: CellSpec) -> Execution:
    """A cell whose frames were captured."""
    done = made_results.execution(spec)
    file = CapturedFile(f"pcap/{spec.id}.0/{FILE}", "0" * 64, 3, 0)
    return replace(done, result=replace(done.result, captures=(file,)))


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A daemon with one run, whose frames were captured."""
    made = House(tmp_path, runner=captured)
    name = made.client.post("/api/runs", json={"rtt": "10ms", "in_lab": True}).json["id"]
    done = until(made, name, lambda run: run["state"] == "done")
    place = tmp_path / "runs" / name / done["cells"][0]["captures"][0]["path"]
    place.parent.mkdir(parents=True)
    place.write_bytes(FRAMES)
    return made


def placed(house: House) -> tuple[str, Path]:
    """The address of the file, and where it lies."""
    (name,) = house.client.get("/api/runs").json["runs"]
    (cell,) = house.client.get(f"/api/runs/{name}").json["cells"]
    path = cell["captures"][0]["path"]
    return f"/api/runs/{name}/{path}", house.appliance.state_dir / "runs" / name / path


def test_a_reader_downloads_captured_frames(house: House) -> None:
    address, _ = placed(house)
    with house.someone(TOKENS.read).get(address) as answer:
        assert (answer.status_code, answer.data, answer.content_length) == (200, FRAMES, len(FRAMES))
    assert answer.content_type == "application/x-pcapng"
    assert answer.headers["Content-Disposition"].startswith("attachment; filename=")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert problem(house.someone().get(address), 401)
    assert problem(house.client.delete(address), 405)


@pytest.mark.parametrize("end", ["other.pcapng", "..%2f..%2frun.json", "%2e%2e/run.json", f"../../{FILE}"])
def test_only_files_that_a_result_names_are_given_out(house: House, end: str) -> None:
    address, place = placed(house)
    (place.parent / "other.pcapng").write_bytes(b"not of a result")
    assert problem(house.client.get(f"{address.rpartition('/')[0]}/{end}"), 404)


def test_what_a_program_put_in_the_place_of_the_file_is_not_given_out(house: House, tmp_path: Path) -> None:
    address, place = placed(house)
    secret = tmp_path / "secret"
    secret.write_text("not to be read")
    place.unlink()
    for put in (lambda: place.symlink_to(secret), lambda: os.mkfifo(place), place.mkdir):
        put()
        assert problem(house.client.get(address), 404)
        place.rmdir() if place.is_dir() and not place.is_symlink() else place.unlink()
    place.parent.rmdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / FILE).write_text("not to be read")
    place.parent.symlink_to(tmp_path / "elsewhere")
    assert problem(house.client.get(address), 404)
    place.parent.unlink()
    assert problem(house.client.get(address), 404)
