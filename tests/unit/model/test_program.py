"""A program as the user gives it: placeholders, what is refused, and names."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.model import program
from emulator.model.program import PLACEHOLDERS, Program, ProgramError, Ready, filled, of_settings

VALUES = dict.fromkeys(PLACEHOLDERS, "9")


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("curl http://{server}:80/{run}", "curl http://9:80/9"),
        ("awk '{{print $1}}' ${HOME}/x", "awk '{print $1}' ${HOME}/x"),
        ("{{server}} {server}", "{server} 9"),
        ("{ true; }", "{ true; }"),
        ("", ""),
    ],
)
def test_placeholders_are_filled_in_and_braces_stay(text: str, result: str) -> None:
    assert filled(text, VALUES) == result


@given(st.text(alphabet="ab{} $", max_size=30))
def test_text_that_doubles_its_braces_stays_as_it_was(text: str) -> None:
    assert filled(text.replace("{", "{{").replace("}", "}}"), VALUES) == text


@given(st.text(max_size=60))
def test_what_is_accepted_can_be_filled(text: str) -> None:
    if not program.unknown_placeholders(text):
        filled(text, VALUES)


@pytest.mark.parametrize(
    ("settings", "mistakes"),
    [
        ({}, {"client": "there is no client command"}),
        ({"client": " "}, {"client": "there is no client command"}),
        ({"client": "a", "server": "b"}, {"ready": "nothing says when the server is ready"}),
        ({"client": "a", "ready": Ready("tcp", "80")}, {"ready": "there is no server to wait for"}),
        ({"client": "a {sever}"}, {"client": "there is no placeholder 'sever': use server, client"}),
        ({"client": "a {bytes}"}, {"client": "stands for the key bytes"}),
        ({"client": "a", "repeat": 0}, {"repeat": "0 is not within 1..1000"}),
        ({"client": "a", "bytes": 0}, {"bytes": "not within"}),
        ({"client": "a", "timeout_ns": 0}, {"timeout": "not above 0"}),
        ({"client": "a", "files": {"../x": ""}}, {"files": "not below the working folder"}),
        ({"client": "a", "files": {"x": "{y}"}}, {"files.x": "no placeholder 'y'"}),
        ({"client": "a", "files": {"x": "a" * (1 << 20), "y": "b"}}, {"files": "more than 64 files or 1 MiB"}),
        ({"client": "a", "keep": ("/etc/passwd",)}, {"keep": "not below the working folder"}),
        ({"client": "a", "user": "root; reboot"}, {"user": "is no user name"}),
        ({"client": "a", "environment": {"A B": "x"}}, {"environment": "is no variable"}),
        ({"client": "a", "name": "a/b"}, {"name": "is no name"}),
    ],
)
def test_what_no_program_can_have_is_refused_at_its_key(settings: dict[str, Any], mistakes: dict[str, str]) -> None:
    with pytest.raises(ProgramError) as error:
        of_settings(settings)
    found = dict(error.value.mistakes)
    assert found.keys() == mistakes.keys()
    assert all(re.search(re.escape(text), found[key]) for key, text in mistakes.items()), found


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ProgramError) as error:
        of_settings({"client": "a {x} {y}", "server": "b {z}", "repeat": 0, "user": "?"})
    assert [key for key, _ in error.value.mistakes] == ["ready", "server", "client", "client", "repeat", "user"]


@pytest.mark.parametrize("text", ["tcp:873", "file:run/pid", "output:ready [0-9]+: yes", "after:2s"])
def test_when_a_server_is_ready_is_written_as_it_is_read(text: str) -> None:
    assert str(Ready.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("873", "does not say when the server is ready: use tcp:PORT"),
        ("udp:53", "does not say when"),
        ("tcp:", "has nothing after the colon"),
        ("tcp:0", "is no port"),
        ("tcp:http", "is no port"),
        ("tcp:٣", "is no port"),
        ("file:/etc/passwd", "not below the working folder"),
        ("output:(", "is no regular expression"),
        ("after:2", "unit"),
        ("after:2d", "2d"),
    ],
)
def test_a_strange_condition_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        Ready.parse(text)


@pytest.mark.parametrize(
    ("client", "name"),
    [
        ("rsync -a x y", "rsync"),
        ("/usr/bin/curl -s x", "curl"),
        ("LANG=C  scp a b", "scp"),
        ("for i in 1 2; do true; done", "program"),
        ("(a; b)", "program"),
        ("'unfinished", "program"),
    ],
)
def test_a_program_is_called_by_its_clients_first_word(client: str, name: str) -> None:
    assert of_settings({"client": client}).name == name


def test_the_programs_that_must_be_there() -> None:
    one = Program(
        "x", "LC_ALL=C curl a", "exec nginx -g off", Ready("tcp", "80"), "cd x && head /dev/zero", "$(which x)"
    )
    assert one.programs == ("head", "nginx", "curl")
