"""What is different between two schedules, in words for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emulator.model.impairment_keys import KEYS
from emulator.model.schedule import DOWN, RTT, Keyframe, Schedule, Track, Value
from emulator.units import format_duration

MOST_WORDS = 40
"""Of the sentences; a trace would have thousands."""


def differences(old: Schedule | None, new: Schedule | None) -> list[str]:
    """One sentence for each key, track and setting that is different. Tracks are compared in their order."""
    if old is None or new is None:
        return _whole(old, new)
    texts = [
        f"{what} is {after}, was {before}"
        for what, before, after in (
            ("the loop", _time(old.loop_ns), _time(new.loop_ns)),
            ("the step", _time(old.step_ns), _time(new.step_ns)),
        )
        if before != after
    ]
    if old.start != new.start:
        texts.append("the schedule starts at another time")
    was, now = _named(old.tracks), _named(new.tracks)
    for name in dict.fromkeys((*was, *now)):
        texts += _keys(name, was.get(name, {}), now.get(name, {}))
    if not texts and old != new:
        texts.append("tracks are in another order, or grouped in another way")
    return _shortened(texts)


def _whole(old: Schedule | None, new: Schedule | None) -> list[str]:
    if new is None:
        return ["the schedule is removed: the lanes stay at their own settings"] if old else []
    count = sum(len(track.keys) for track in new.tracks)
    return [f"a schedule with {_count(len(new.tracks), 'track')} and {_count(count, 'key')} is new"]


def _named(tracks: Sequence[Track]) -> dict[str, dict[int, str]]:
    """By lanes, direction and setting, what the keys say at each time; equal names are numbered."""
    found: dict[str, dict[int, str]] = {}
    for track in tracks:
        settings = [(key.at_ns, word, text) for key in track.keys for word, text in said(key).items()]
        for word in dict.fromkeys(word for _, word, _ in settings):
            direction = "" if track.direction == "both" else f" {track.direction}"
            base = name = f"{', '.join(track.lanes) or 'all lanes'}{direction} {word}"
            number = 2
            while name in found:
                name, number = f"{base} ({number})", number + 1
            found[name] = {at_ns: text for at_ns, one, text in settings if one == word}
    return found


def said(key: Keyframe) -> dict[str, str]:
    """What a keyframe sets, as in a file, by the words of the file."""
    values: Mapping[str, Value] = dict(key.values)
    ramp = " by a ramp" if key.ramp else ""
    found = {"rtt": format_duration(int(str(values[RTT])))} if RTT in values else {}
    found |= {one.name: str(one.write(values)) for one in KEYS if values.keys() >= set(one.fields)}
    found |= {"down": "yes" if values[DOWN] else "no"} if DOWN in values else {}
    return {word: text + ramp for word, text in found.items()}


def _keys(name: str, was: Mapping[int, str], now: Mapping[int, str]) -> list[str]:
    gone = {at: text for at, text in was.items() if at not in now}
    new = {at: text for at, text in now.items() if at not in was}
    if not was:
        return [f"{name}: a track with {_count(len(now), 'key')} is new"]
    if not now:
        return [f"{name}: the track is removed"]
    if len(gone) == len(new) == 1:
        (before, old), (after, text) = *gone.items(), *new.items()
        value = "" if old == text else f", to {text}"
        texts = [f"{name}: the key at {format_duration(before)} moves to {format_duration(after)}{value}"]
    else:
        texts = [f"{name}: the key at {format_duration(at)} ({text}) is removed" for at, text in gone.items()]
        texts += [f"{name}: {text} from {format_duration(at)} on is new" for at, text in new.items()]
    changed = [at for at in was if at in now and was[at] != now[at]]
    return texts + [f"{name}: {now[at]} from {format_duration(at)} on, was {was[at]}" for at in changed]


def _shortened(texts: list[str]) -> list[str]:
    more = len(texts) - MOST_WORDS
    return [*texts[:MOST_WORDS], f"and {more} more changes"] if more > 1 else texts


def _time(ns: int | None) -> str:
    return "none" if ns is None else format_duration(ns)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
