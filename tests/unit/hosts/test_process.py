"""Programs are run for real: their output, their end, their language, and what becomes of them."""

from __future__ import annotations

import resource
from collections.abc import Callable

import pytest
from support.waiting import PATIENCE_S, until

from emulator.errors import MeasureError, MissingError
from emulator.hosts.tools import process
from emulator.system.bounded_file import FileKind


def test_output_and_exit_code() -> None:
    done = process.run(["sh", "-c", "echo out; echo err >&2; exit 3"], PATIENCE_S)
    assert (done.stdout, done.stderr, done.exit_code) == ("out\n", "err\n", 3)


def test_programs_speak_english_and_have_no_input() -> None:
    done = process.run(["sh", "-c", "echo $LC_ALL; cat"], PATIENCE_S)
    assert done.stdout == "C\n"


def test_arguments_are_never_read_by_a_shell() -> None:
    assert process.run(["echo", "$HOME; `id`"], PATIENCE_S).stdout == "$HOME; `id`\n"


def test_checked_raises_with_the_programs_last_words() -> None:
    with pytest.raises(MeasureError, match=r"^sh -c echo no >&2; exit 4 ended with 4: no$"):
        process.run(["sh", "-c", "echo no >&2; exit 4"], PATIENCE_S).checked()
    assert process.run(["true"], PATIENCE_S).checked().exit_code == 0


def test_a_missing_program_says_what_to_do() -> None:
    with pytest.raises(MissingError, match=r"^no-such-program is not installed: run scripts/install$"):
        process.run(["no-such-program"], PATIENCE_S)


def test_a_program_that_does_not_end_is_killed_with_its_children() -> None:
    # The child holds the program's stdout: were it not killed too, reading that to its end would take 1000 s.
    with pytest.raises(MeasureError, match=r"did not end within 0.05 s"):
        process.run(["sh", "-c", "sleep 1000 & wait"], 0.05)


def test_leaving_the_block_ends_the_program() -> None:
    with process.start(["sleep", "1000"]) as program:
        assert program.running()
    assert not program.running()


def test_a_namespace_that_is_not_there() -> None:
    with pytest.raises(MissingError, match="there is no host lh-nowhere"):
        process.run(["true"], PATIENCE_S, namespace="lh-nowhere")


def test_a_dialogue() -> None:
    with process.Running(
        ["sh", "-c", "while read -r word; do echo got $word; done; echo end"], listens=True
    ) as program:
        program.say("one")
        assert program.read_line(PATIENCE_S) == "got one"
        program.say("two")
        assert program.read_line(PATIENCE_S) == "got two"
        program.close_stdin()
        assert program.wait(PATIENCE_S).stdout == "end\n"


def test_a_program_that_says_nothing_or_is_gone() -> None:
    with process.Running(["sleep", "1000"], listens=True) as program:
        assert program.read_line(0.05) == ""
    with process.Running(["true"], listens=True) as program:
        assert program.read_line(PATIENCE_S) == ""
        program.wait(PATIENCE_S)


def test_waiting_does_not_end_the_input() -> None:
    program = process.Running(["sh", "-c", "cat; echo ended"], listens=True)
    with pytest.raises(MeasureError, match="did not end within"):
        program.wait(0.1)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that are reached soon."""
    monkeypatch.setattr(process, "OUTPUT", FileKind("a program's output", 8 << 20))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("where", ["", " >&2"])
def test_a_program_that_prints_without_an_end_is_ended_and_fills_no_memory(where: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(
        MeasureError, match=r"cat /dev/zero.* printed more than 8 MiB: Longhaul ended it; run it by hand"
    ):
        process.run(["sh", "-c", f"cat /dev/zero{where}"], PATIENCE_S)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


@pytest.mark.usefixtures("small")
def test_both_outputs_together_are_within_the_limit() -> None:
    with pytest.raises(MeasureError, match="printed more than 8 MiB"):
        process.run(["sh", "-c", "head -c 5M /dev/zero; head -c 5M /dev/zero >&2"], PATIENCE_S)
    done = process.run(["sh", "-c", "head -c 3M /dev/zero >&2; head -c 4M /dev/zero"], PATIENCE_S)
    assert (len(done.stdout), len(done.stderr), done.exit_code) == (4 << 20, 3 << 20, 0)


def take_for_ever(program: process.Running) -> None:
    until(program.lines_so_far)


@pytest.mark.parametrize("read", [lambda one: one.read_line(PATIENCE_S), lambda one: list(one.lines()), take_for_ever])
def test_a_line_without_an_end_is_refused(read: Callable[[process.Running], object]) -> None:
    with process.start(["cat", "/dev/zero"]) as program:
        with pytest.raises(MeasureError, match="cat /dev/zero printed a line of more than 64 KiB"):
            read(program)
        assert not program.running()


def test_lines_are_taken_as_they_come_without_waiting() -> None:
    with process.Running(["sh", "-c", "while read -r word; do printf $word; done; echo"], listens=True) as program:
        assert program.lines_so_far() == []
        taken: list[str] = []

        def took(wanted: int) -> bool:
            taken.extend(program.lines_so_far())
            return len(taken) >= wanted

        program.say(r"one\ntwo\nthr")
        assert until(lambda: took(2)), taken
        program.say(r"ee\n")
        assert until(lambda: took(3)), taken
        program.close_stdin()
        assert until(lambda: took(4)), taken
        assert taken == ["one", "two", "three", ""]
        assert program.ends_within(PATIENCE_S)
        assert program.lines_so_far() == []
        assert program.wait(PATIENCE_S).exit_code == 0


def test_a_program_that_never_stops_printing_is_late_all_the_same() -> None:
    with pytest.raises(MeasureError, match=r"did not end within 0\.2 s"):
        process.run(["sh", "-c", "while :; do echo again; sleep 0.01; done"], 0.2)


def test_output_is_there_for_who_waits_twice() -> None:
    with process.start(["echo", "once"]) as program:
        assert [program.wait(PATIENCE_S).stdout for _ in range(2)] == ["once\n"] * 2
