"""A path profile on disk: a folder with profile.yaml, the tables of delays and the traces over time.

PATH/recording.json       what is recorded and when it began; PATH/probes.csv  every probe, written when it completes
PATH/profile.yaml         the profile; its keys are those of a topology's lane
PATH/outbound.dist        the table of delays in tc's format; inbound.dist
PATH/outbound.csv         the direction over time, for a schedule's `trace`; inbound.csv
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from emulator import units
from emulator.analysis.statistics import Estimate
from emulator.config import yaml_source
from emulator.config.loader import explain
from emulator.config.path_profile_include import FORMAT, PROFILE
from emulator.config.schema import said
from emulator.errors import InputError
from emulator.experiment.run_folder import write_atomically
from emulator.model import traces
from emulator.model.jitter_distribution import DistributionTable
from emulator.model.loss_model import P32
from emulator.model.schedule import Keyframe
from emulator.record import probes
from emulator.record.gap_fit import Goodness
from emulator.record.path_profile import Direction, Found, PathProfile, RecordingSource
from emulator.record.probes import RecordedProbe
from emulator.record.schema import FoundForm, NumberForm, PathForm, PathProfileForm, ShareForm, TimeForm, form_at
from emulator.system import bounded_file
from emulator.system.bounded_file import FileKind
from emulator.system.struct_json import from_plain, to_plain

RECORDING, PROBES = "recording.json", "probes.csv"
DIRECTIONS = ("outbound", "inbound")
_PER_LINE = 16


def load(path: str | Path) -> PathProfile:
    """Read the profile from a folder or a file. Raises InputError with every mistake."""
    file = _file(path)
    source = yaml_source.read(_text(file, bounded_file.PATH_PROFILE), str(file))
    try:
        form = PathProfileForm.model_validate(source.tree, context={"folder": file.parent})
    except ValidationError as invalid:
        for error in invalid.errors():
            where = tuple(str(part) for part in error["loc"])
            source.wrong(where, explain(error, where, form_at))
    source.raise_mistakes()
    trip = form.rtt
    return PathProfile(
        RecordingSource(form.source.host, form.source.tool, form.source.at, form.source.every, form.source.ways),
        (trip.least, _times(trip.median), _times(trip.p99)),
        _direction(form.outbound),
        _direction(form.inbound),
    )


def load_trace(path: str | Path, direction: str) -> tuple[Keyframe, ...]:
    """The keyframes of a direction's trace. Raises InputError when the profile has none."""
    trace = _trace_file(path, direction)
    try:
        return traces.read_csv(_text(trace, bounded_file.TRACE))
    except ValueError as error:
        raise InputError.single(str(error), str(trace)) from None


def trace_text(path: str | Path, direction: str) -> str:
    """The file of a direction's trace. Raises InputError when the profile has none."""
    return _text(_trace_file(path, direction), bounded_file.TRACE)


def _trace_file(path: str | Path, direction: str) -> Path:
    file = _file(path)
    tree = yaml_source.read(_text(file, bounded_file.PATH_PROFILE), str(file)).tree
    said = tree.get(direction) if isinstance(tree, dict) else None
    name = said.get("trace") if isinstance(said, dict) else None
    if not isinstance(name, str):
        raise InputError.single("the profile has no trace for this direction", str(file), direction)
    return file.parent / name


def _file(path: str | Path) -> Path:
    return Path(path) / PROFILE if Path(path).is_dir() else Path(path)


def _text(path: Path, kind: FileKind) -> str:
    try:
        return bounded_file.read_text(path, kind, errors="replace")
    except OSError as error:
        text = f"cannot be read: {error.strerror}; longhaul record writes path profiles"
        raise InputError.single(text, str(path)) from None


def _recording(path: Path) -> Any:
    """What recording.json holds. Raises InputError."""
    try:
        return bounded_file.read_json(path, bounded_file.RECORDING)
    except OSError as error:
        text = f"cannot be read: {error.strerror}; longhaul record writes path profiles"
        raise InputError.single(text, str(path)) from None
    except ValueError as error:
        raise InputError.single(str(error), str(path)) from None


def _times(form: TimeForm) -> Estimate:
    return Estimate(form.value, form.low, form.high)


def _shares(form: ShareForm) -> Estimate:
    return Estimate(form.value / P32, form.low / P32, form.high / P32)


def _direction(form: PathForm) -> Direction:
    fields = said(form)
    shape = fields.get("distribution") if fields.get("jitter_ns") else None
    return Direction(
        fields["delay_ns"],
        fields.get("jitter_ns", 0),
        None if isinstance(shape, str) else shape,
        fields.get("loss_model") or fields.get("loss_p32", 0),
        fields.get("rate_bps"),
        _found(form.found),
    )


def _found(form: FoundForm) -> Found:
    burst: NumberForm | None = form.burst
    return Found(
        delays=form.delays,
        least_ns=form.least,
        median_ns=_times(form.median),
        p99_ns=_times(form.p99),
        correlation=form.correlation,
        variation_ns=form.variation,
        packets=form.packets,
        lost=_shares(form.lost),
        burst=Estimate(burst.value, burst.low, burst.high) if burst else None,
        bursts=form.bursts,
        goodness=Goodness(form.fit.chi_square, form.fit.freedom, form.fit.p_value) if form.fit else None,
    )


def dumps(profile: PathProfile) -> str:
    """The profile as YAML; it names tables and traces as `save` writes them."""
    return yaml.safe_dump(tree(profile), sort_keys=False, default_flow_style=None, width=120)


def tree(profile: PathProfile) -> dict[str, Any]:
    """The profile as its file holds it."""
    source, (least, median, p99) = profile.source, profile.rtt_ns
    whole: dict[str, Any] = {
        "path_profile": FORMAT,
        "source": {
            "host": source.host,
            "tool": source.tool,
            "at": source.at,
            "every": _time(source.every_ns),
            "ways": source.ways,
        },
        "rtt": {"least": _time(least), "median": _time_tree(median), "p99": _time_tree(p99)},
    }
    return whole | {name: _direction_tree(name, getattr(profile, name)) for name in DIRECTIONS}


def _direction_tree(name: str, one: Direction) -> dict[str, Any]:
    found = one.found
    loss = units.format_probability(one.loss) if isinstance(one.loss, int) else str(one.loss)
    tree: dict[str, Any] = {"delay": _time(one.delay_ns)}
    if one.table:
        tree |= {"jitter": _time(one.jitter_ns), "distribution": f"{name}.dist"}
    tree |= {"loss": loss} if one.loss else {}
    tree |= {"rate": units.compact(units.format_rate(one.rate_bps))} if one.rate_bps else {}
    counted: dict[str, Any] = {
        "delays": found.delays,
        "least": _time(found.least_ns),
        "median": _time_tree(found.median_ns),
        "p99": _time_tree(found.p99_ns),
        "correlation": round(found.correlation, 4),
        "variation": _time(found.variation_ns),
        "packets": found.packets,
        "lost": _three(found.lost, lambda share: f"{share:.6%}"),
    }
    counted |= {"burst": _three(found.burst, lambda value: round(value, 4))} if found.burst else {}
    counted["bursts"] = found.bursts
    if found.goodness:
        fit = found.goodness
        counted["fit"] = {
            "chi_square": round(fit.chi_square, 3), "freedom": fit.freedom, "p_value": round(fit.p_value, 6),
        }  # fmt: skip
    return tree | {"trace": f"{name}.csv", "found": counted}


def _time(ns: float) -> str:
    return units.compact(units.format_duration(round(ns)))


def _time_tree(one: Estimate) -> dict[str, str]:
    return _three(one, _time)


def _three(one: Estimate, text: Any) -> dict[str, Any]:
    return {"value": text(one.value), "low": text(one.low), "high": text(one.high)}


def save(folder: Path, profile: PathProfile, traces_of: Mapping[str, str]) -> None:
    """Write the profile, its tables and traces. profile.yaml is written last, so that it never names a missing file."""
    for name in DIRECTIONS:
        table: DistributionTable | None = getattr(profile, name).table
        if table:
            write_atomically(folder / f"{name}.dist", dist(table))
        write_atomically(folder / f"{name}.csv", traces_of[name])
    write_atomically(folder / PROFILE, dumps(profile))


def dist(table: DistributionTable) -> str:
    """A table in the format of tc's *.dist files."""
    rows = [" ".join(map(str, table[i : i + _PER_LINE])) for i in range(0, len(table), _PER_LINE)]
    return "\n".join(["# deviations from the delay, in 1/8192 jitter", *rows]) + "\n"


def begin(folder: Path, source: RecordingSource) -> None:
    """Create the folder of a recording. Raises InputError when it exists already."""
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise InputError.single(f"cannot create: {error.strerror}; name another with --output", str(folder)) from None
    write_atomically(folder / RECORDING, json.dumps({"format": FORMAT, **to_plain(source)}) + "\n")
    (folder / PROBES).write_text(probes.HEADER + "\n", "utf-8")


def keep_rates(folder: Path, rates_bps: tuple[int, int]) -> None:
    """Save the measured rates of both directions."""
    facts = _recording(folder / RECORDING) | {"rates_bps": list(rates_bps)}
    write_atomically(folder / RECORDING, json.dumps(facts) + "\n")


def recorded(folder: Path) -> tuple[RecordingSource, list[RecordedProbe], tuple[int | None, int | None]]:
    """What a folder holds of a recording, even an interrupted one, and the rates of both directions where measured.

    Raises InputError when a file is missing or malformed.
    """
    source, rates_bps = _facts(folder / RECORDING)
    try:
        return source, probes.parse(_text(folder / PROBES, bounded_file.PROBES)), rates_bps
    except ValueError as error:
        raise InputError.single(str(error), str(folder / PROBES)) from None


def source(folder: Path) -> RecordingSource:
    """What a folder's recording was made of, even an interrupted one. Raises InputError."""
    return _facts(folder / RECORDING)[0]


def _facts(path: Path) -> tuple[RecordingSource, tuple[int | None, int | None]]:
    try:
        facts = from_plain(dict, _recording(path))
        if facts.pop("format", None) != FORMAT:
            raise ValueError(f"its format is not {FORMAT}: use the Longhaul that wrote it")
        there, back = facts.pop("rates_bps", (None, None))
        return from_plain(RecordingSource, facts), (there, back)
    except (ValueError, TypeError) as error:
        raise InputError.single(str(error), str(path)) from None


def has_answers(folder: Path) -> bool:
    """Whether a folder holds a recording with at least one answered probe."""
    return (folder / PROBES).exists() and any(p.rtt_ns is not None for p in recorded(folder)[1])


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a path profile, for editors."""
    return PathProfileForm.model_json_schema()
