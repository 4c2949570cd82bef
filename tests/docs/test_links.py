"""Every link leads somewhere, every file that a page names is there, and nothing of a workplace is in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.documented_examples import DOCS, pages
from support.folders import ROOT

from emulator import errors

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PATHS = re.compile(r"`((?:emulator|web|tests|scripts|topologies)/[\w./-]+)")
MOST_LINES_OF_THE_README = 150


def without_code(text: str) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)", without_code(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(without_code(page.read_text())):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), link
        assert not anchor or anchor in anchors(goal), link


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_files_that_are_named_are_there(page: Path) -> None:
    gone = [path for path in PATHS.findall(page.read_text()) if not (ROOT / path.rstrip(".")).exists()]
    assert page.name == "CHANGELOG.md" or gone == []


def test_the_index_lists_every_page() -> None:
    listed = re.findall(r"\]\(([\w-]+\.md)\)", (DOCS / "index.md").read_text())
    assert sorted([*listed, "index.md"]) == sorted(page.name for page in DOCS.glob("*.md"))


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_a_page_begins_with_its_title_and_a_sentence(page: Path) -> None:
    title, blank, first = page.read_text().split("\n")[:3]
    assert title.startswith("# ")
    assert blank == ""
    assert re.match(r"[A-Z`*].*\w", first)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= MOST_LINES_OF_THE_README


def test_every_error_has_its_cause_and_cure() -> None:
    text = (DOCS / "troubleshooting.md").read_text()
    classes = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.LonghaulError)]
    for one in classes:
        row = f"| [{one.__name__}](#{one.__name__.lower()}) | {one.exit_code} | {one.http_status} |"
        assert row in text
        section = text.partition(f"\n## {one.__name__}\n")[2].partition("\n## ")[0]
        assert one is errors.LonghaulError or ("**Cause.**" in section and "**Cure.**" in section), one
    codes = {str(one.exit_code) for one in classes} | {"0", str(errors.EXIT_NOT_AS_ASKED), "130"}
    commands = (DOCS / "commands.md").read_text().partition("| exit code |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| (\d+) \|", commands, re.MULTILINE)) == codes


def test_every_validity_check_is_explained() -> None:
    from emulator.analysis.validity_checks import DETECTORS
    from emulator.experiment.attempts import NOTES

    rows = re.findall(r"^\| `([a-z-]+)` \| (invalid|note) \|", (DOCS / "measuring.md").read_text(), re.MULTILINE)
    checks = [(name, "invalid" if fatal else "note") for name, fatal, _ in DETECTORS]
    assert rows == [*checks, *((name, "note") for name in NOTES)]


def test_every_check_of_requests_is_explained() -> None:
    from emulator.analysis.request_verdict import REQUEST_DETECTORS
    from emulator.analysis.validity_checks import LANE_DETECTORS
    from emulator.model.sweep_axes import REQUEST_AXES

    text = (DOCS / "requests.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| (invalid|note) \|", text, re.MULTILINE)
    assert rows == [(name, "invalid" if fatal else "note") for name, fatal, _ in REQUEST_DETECTORS]
    for name, _, _ in LANE_DETECTORS:
        assert f"`{name}`" in text, name
    keys = re.findall(r"^\| `([a-z_]+)` \| `--([a-z-]+)` \|", text, re.MULTILINE)
    assert keys == [(axis.key, axis.option[2:]) for axis in REQUEST_AXES]


def test_every_check_of_flows_is_explained() -> None:
    from emulator.analysis.flow_verdict import FLOW_DETECTORS
    from emulator.analysis.validity_checks import LANE_DETECTORS
    from emulator.model.flow_group import SETTINGS

    text = (DOCS / "flows.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| (invalid|note) \|", text, re.MULTILINE)
    assert rows == [(name, "invalid" if fatal else "note") for name, fatal, _ in FLOW_DETECTORS]
    assert [name for name, _, _ in LANE_DETECTORS if f"`{name}`" not in text] == []
    assert re.findall(r"^\| `([a-z]+)(?:=[^`]*)?` \| [^|]* \| [^|]* \|$", text, re.MULTILINE)[: len(SETTINGS)] == [
        *SETTINGS
    ]


def test_every_check_of_programs_is_explained() -> None:
    from emulator.analysis.program_verdict import PROGRAM_CHECKS
    from emulator.analysis.validity_checks import LANE_DETECTORS

    text = (DOCS / "programs.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| (invalid|note) \|", text, re.MULTILINE)
    assert rows == [(name, "invalid" if fatal else "note") for name, fatal, _ in PROGRAM_CHECKS]
    assert [name for name, _, _ in LANE_DETECTORS if f"`{name}`" not in text] == []


def test_every_verdict_on_a_program_is_explained() -> None:
    from emulator.analysis.program_time import KINDS

    rows = (DOCS / "programs.md").read_text().partition("| limited by |")[2].partition("\n\n")[0]
    cells = ", ".join(re.findall(r"^\| ([a-z ,]+) \|", rows, re.MULTILINE))
    assert set(cells.split(", ")) == {*KINDS}


def test_the_rooms_of_the_architecture_are_the_rooms() -> None:
    text = (DOCS / "architecture.md").read_text()
    rooms = {path.parent.name for path in (ROOT / "emulator").glob("*/__init__.py")} | {"engine"}
    assert set(re.findall(r"^\| `emulator/(\w+)/` \|", text, re.MULTILINE)) == rooms
    stages = re.findall(r"^  (\w+/\w+) ", text, re.MULTILINE)
    assert len(stages) >= 9
    assert [stage for stage in stages if not (ROOT / f"emulator/{stage}.py").exists()] == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_page_names_no_home_directory_and_no_registry(page: Path) -> None:
    assert re.search(r"/home/\w|registry", page.read_text()) is None
