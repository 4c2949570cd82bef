"""What is tried again, what is recorded of it, and what a user is told when all fails."""

from __future__ import annotations

import pytest

from emulator.errors import MeasureError
from emulator.experiment.attempts import NOTES, Attempts, advice, noted
from emulator.hosts.tools import irtt
from emulator.system.lateness import MachineLateness

IDLE, BUSY = MachineLateness(0.3, 2, 100_000), MachineLateness(6.0, 2, 0)


class Failing:
    """Fails with these words first; notes by how much its limits were to be longer."""

    def __init__(self, *words: str) -> None:
        self.words, self.patience = list(words), list[float]()

    def __call__(self, patience: float) -> str:
        self.patience.append(patience)
        if self.words:
            raise MeasureError(self.words.pop(0))
        return "found"


def test_what_goes_well_at_once_leaves_no_trace() -> None:
    attempts, act = Attempts(lambda: IDLE), Failing()
    assert attempts("the RTT", act) == "found"
    assert (act.patience, attempts.caveats) == ([1.0], [])


def test_what_goes_well_in_the_end_says_what_was_seen_and_every_attempt_has_more_time() -> None:
    attempts, act = Attempts(lambda: BUSY), Failing("no reply from server", "no reply from server")
    assert attempts("the RTT", act) == "found"
    assert act.patience == [3.0, 6.0, 9.0]
    (caveat,) = attempts.caveats
    assert (caveat.check, caveat.fatal) == ("tried-again", False)
    assert caveat.text == f"the RTT needed 3 attempts: no reply from server ({BUSY})"


def test_what_fails_every_time_is_told_with_each_reason_once() -> None:
    attempts = Attempts(lambda: IDLE)
    with pytest.raises(MeasureError) as error:
        attempts("the RTT", Failing("a", "b", "a", "never"))
    assert str(error.value) == "the RTT failed 3 times: a; then b"
    assert attempts.caveats == []


@pytest.mark.parametrize(("late", "words"), [(IDLE, "check the lane"), (BUSY, f"this machine is busy ({BUSY})")])
def test_a_failure_says_what_to_do(late: MachineLateness, words: str) -> None:
    with pytest.raises(MeasureError) as error, Attempts(lambda: late).explained():
        raise MeasureError("iperf3: unable to connect")
    assert str(error.value) == f"iperf3: unable to connect; {advice(late)}"
    assert words in advice(late)
    assert "measure again" in advice(late)


def test_notes_are_told_apart_from_what_the_checks_found() -> None:
    findings = ["cpu: a core was busy", *(f"{check}: said of: {check}" for check in NOTES)]
    assert noted(findings) == [f"said of: {check}" for check in NOTES]


def test_a_patient_irtt_waits_longer_for_its_server_every_time() -> None:
    plain, patient = (irtt.client_argv("10.77.0.2", 1, 0.02, patience=patience) for patience in (1, 3))
    assert not any(word.startswith("--timeouts") for word in plain)
    assert {"--timeouts=3000ms,6000ms,12000ms", "--wait=3x4000ms"} <= set(patient)
