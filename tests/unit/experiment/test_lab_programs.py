"""What the cells of a sweep need of their labs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.made_results import cell_spec

from emulator.experiment import lab_programs
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Asked, RunFolder
from emulator.hosts.tools import machine_facts, program_root
from emulator.hosts.tools.program import ProgramWorkload
from emulator.lab.lab_root import LabRoot, RootChoice
from emulator.model.program import of_settings


def cell(**settings: object) -> CellSpec:
    return replace(cell_spec(), workload=ProgramWorkload(of_settings({"ready": None, **settings})))


def test_the_users_programs_are_the_first_words_but_of_the_shell() -> None:
    assert lab_programs.used([cell_spec()]) == ()
    one = cell(client="rsync -a x y | ./own.sh", prepare="cd . && make && echo $(made)")
    other = cell(client="./own.sh")
    assert lab_programs.used([one, one, other, cell(client="/opt/tool x")]) == ("make", "rsync", "/opt/tool")


def test_with_a_path_of_their_own_they_are_not_looked_for() -> None:
    assert lab_programs.used([cell(client="tool", environment={"PATH": "/srv/bin"})]) == ()


def test_streams_need_their_tool_of_this_machine() -> None:
    assert "iperf3" in lab_programs.needed_of_host([cell_spec(), cell(client="x")])
    assert "iperf3" not in lab_programs.needed_of_host([cell(client="x")])


def test_the_cell_is_told_where_its_programs_are_and_records_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = LabRoot(RootChoice(folder=str(tmp_path)), Path("/c/kernel-1/linux"), Path("/c/image-1/root"))
    told = lab_programs.environment([cell(client="x")], root)
    assert json.loads(told[machine_facts.LAB_ROOT])["programs"] == f"--root {tmp_path}"
    assert told[program_root.LAB_PROGRAMS] == "/lab/programs"
    monkeypatch.setenv(program_root.LAB_PROGRAMS, "/lab/programs")
    assert program_root.inside(["tool", "a b"])[-3:] == ["/lab/programs", "tool", "a b"]
    monkeypatch.delenv(program_root.LAB_PROGRAMS)
    assert program_root.inside(["tool", "a b"]) == ["tool", "a b"]
    image = replace(root, choice=RootChoice())
    assert program_root.LAB_PROGRAMS not in lab_programs.environment([cell(client="x")], image)


@pytest.mark.parametrize("choice", [RootChoice(), RootChoice(("nginx",), kernel_config="full"), RootChoice(host=True)])
def test_a_run_keeps_where_its_programs_came_from(choice: RootChoice, tmp_path: Path) -> None:
    asked = Asked((cell_spec(),), in_lab=True, root=choice)
    assert RunFolder.create(tmp_path / "run", {}, asked).asked() == asked


def test_an_older_run_had_the_image(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", {}, Asked((cell_spec(),), in_lab=True))
    value = folder.facts()
    del value["root"]
    folder.write("run.json", json.dumps(value))
    assert folder.asked().root == RootChoice()
