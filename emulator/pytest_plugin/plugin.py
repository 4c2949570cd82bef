"""What pytest loads: the fixtures, the marker, and the report of a failed test's cells."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields

import pytest

from emulator.pytest_plugin.measure import LonghaulLab, LonghaulRun
from emulator.pytest_plugin.values import LonghaulCell, LonghaulLane

MARKER = "longhaul(rtt, rate, ...): run the test once for each lane; each setting of a lane is a value or a list."
SKIP_HELP = "Skip the tests whose lab cannot run on this machine, instead of failing them."
LAB_HELP = "Options of longhaul sweep for the lab: --host-root, --with PACKAGE,..., --root DIR, --clock counted."
SETTINGS = tuple(field.name for field in fields(LonghaulLane))
CELLS = pytest.StashKey[list[LonghaulCell]]()
MARKED = "_longhaul_marked"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("longhaul").addoption("--longhaul-skip", action="store_true", help=SKIP_HELP)
    parser.addini("longhaul_lab", LAB_HELP, type="args", default=[])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("longhaul")
    if marker is None:
        return
    if marker.args or (wrong := sorted(marker.kwargs.keys() - set(SETTINGS))):
        named = "a value without a name" if marker.args else ", ".join(wrong)
        pytest.fail(f"@pytest.mark.longhaul has {named}: use {', '.join(SETTINGS)}", pytrace=False)
    if MARKED not in metafunc.fixturenames:
        pytest.fail("@pytest.mark.longhaul needs a test that uses run or longhaul_lane", pytrace=False)
    if empty := [key for key, value in marker.kwargs.items() if isinstance(value, list | tuple) and not value]:
        pytest.fail(f"@pytest.mark.longhaul has no value of {empty[0]}: the test would never run", pytrace=False)
    lanes, ids = grid(marker.kwargs)
    metafunc.parametrize(MARKED, lanes, ids=ids, indirect=True)


def grid(settings: Mapping[str, object]) -> tuple[list[LonghaulLane], list[str]]:
    """All combinations of a marker's values, and their names: the values of the settings that vary."""
    lists = {key: [*map(str, value)] if isinstance(value, list | tuple) else [str(value)]
             for key, value in settings.items()}  # fmt: skip
    varied = [key for key, values in lists.items() if len(values) > 1] or list(lists)
    chosen = [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]
    return [LonghaulLane(**one) for one in chosen], ["-".join(one[key] for key in varied) for one in chosen]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.CallInfo[None], None]:
    outcome: object = yield
    report: pytest.TestReport = outcome.get_result()  # type: ignore[attr-defined]
    if report.when == "call" and report.failed and (cells := item.stash.get(CELLS, [])):
        said = [f"{cell}\n    {cell.reason}" for cell in cells]
        said += [f"by hand: {command}" for command in dict.fromkeys(cell.command for cell in cells)]
        report.sections.append(("longhaul", "\n".join(said)))


@pytest.fixture(scope="session")
def longhaul_lab(request: pytest.FixtureRequest) -> LonghaulLab:
    """The labs of this session, with the programs that `longhaul_lab` of pytest's configuration names."""
    config = request.config

    def shown() -> AbstractContextManager[None]:
        capture = config.pluginmanager.getplugin("capturemanager")
        return capture.global_and_fixture_disabled() if capture else nullcontext()

    options = tuple(config.getini("longhaul_lab"))
    return LonghaulLab(options, config.rootpath, config.getoption("longhaul_skip"), shown)


@pytest.fixture(scope="session")
def lane() -> type[LonghaulLane]:
    """Makes a lane: lane(rtt="80ms", rate="1gbit")."""
    return LonghaulLane


@pytest.fixture(name=MARKED)
def _marked(request: pytest.FixtureRequest) -> LonghaulLane | None:
    """The lane of the test's marker; None without one."""
    return getattr(request, "param", None)


@pytest.fixture
def longhaul_lane(_longhaul_marked: LonghaulLane | None) -> LonghaulLane:
    """The lane of this test, one of its marker's grid."""
    if _longhaul_marked is None:
        pytest.fail('longhaul_lane needs the marker: @pytest.mark.longhaul(rtt=["10ms", "80ms"])', pytrace=False)
    return _longhaul_marked


@pytest.fixture
def run(
    request: pytest.FixtureRequest, longhaul_lab: LonghaulLab, _longhaul_marked: LonghaulLane | None
) -> Iterator[LonghaulRun]:
    """Runs a program over a lane: run(client=..., server=..., ready=..., lane=...); run.law(..., rtt=[...])."""
    measure = LonghaulRun(longhaul_lab, _longhaul_marked)
    request.node.stash[CELLS] = measure.seen
    yield measure
