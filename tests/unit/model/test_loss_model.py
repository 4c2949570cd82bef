"""Loss in bursts: what is written, what the kernel is told, and what a walk through the states loses."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.model import loss_model
from emulator.model.loss_model import P32, FourState, GilbertElliott

ONE_PERCENT = 42_949_673


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        ("0", 0),
        ("1%", ONE_PERCENT),
        ("gilbert 1% 20%", GilbertElliott(ONE_PERCENT, 858_993_459, P32, 0)),
        ("gilbert 1% 20% 80%", GilbertElliott(ONE_PERCENT, 858_993_459, 3_435_973_836, 0)),
        ("gilbert 1% 20% 80% 1%", GilbertElliott(ONE_PERCENT, 858_993_459, 3_435_973_836, ONE_PERCENT)),
        ("4-state 1% 20% 0 0 1%", FourState(ONE_PERCENT, 858_993_459, 0, 0, ONE_PERCENT)),
    ],
)
def test_written_and_read_back(text: str, loss: int | loss_model.LossModel) -> None:
    assert loss_model.parse(text) == loss
    model = None if isinstance(loss, int) else loss
    again = loss_model.format_loss(loss if isinstance(loss, int) else 0, model)
    assert loss_model.parse(again) == loss


def test_the_kernel_is_told_what_survives_not_what_is_lost() -> None:
    """The trap that a rival fell into: 1-h sent as h turns "lose everything in the bad state" into "lose nothing"."""
    assert GilbertElliott(1, 2).kernel() == (1, 2, 0, 0)
    assert GilbertElliott(1, 2, bad_p32=0, good_p32=7).kernel() == (1, 2, P32, 7)


@given(st.integers(10_000, P32 // 2), st.integers(2, 1000))
def test_a_mean_burst_gives_that_loss_and_that_burst(loss_p32: int, burst: int) -> None:
    model = loss_model.from_burst(loss_p32, Fraction(burst))
    assert model.mean_loss == pytest.approx(loss_p32 / P32, rel=1e-3, abs=2 / P32 * burst)
    assert P32 / model.r_p32 == pytest.approx(burst, rel=1e-6)


def walk_four(model: FourState, packets: int) -> list[bool]:
    """loss_4state of the kernel, on paper."""
    rng, state, lost = random.Random(3), 1, []
    p13, p31, p32, p23, p14 = (value / P32 for value in model.kernel())
    for _ in range(packets):
        dice = rng.random()
        if state == 1:
            state = 4 if dice < p14 else 3 if dice < p14 + p13 else 1
        elif state == 2:
            state = 3 if dice < p23 else 2
        elif state == 3:
            state = 2 if dice < p32 else 1 if dice < p32 + p31 else 3
        else:
            state = 1
        lost.append(state in (3, 4))
    return lost


@pytest.mark.parametrize("text", ["4-state 1% 20% 5% 50% 0.1%", "4-state 0 20% 0 0 5%", "4-state 2% 30% 0 0 0"])
def test_four_states_lose_in_the_long_run_what_the_formula_says(text: str) -> None:
    model = loss_model.parse(text)
    assert isinstance(model, FourState)
    lost = walk_four(model, 200_000)
    assert sum(lost) / len(lost) == pytest.approx(model.mean_loss, rel=0.05)


def test_gilbert_loss_counts_both_states() -> None:
    model = GilbertElliott(P32 // 100, P32 // 4, P32 // 2, P32 // 1000)
    share = 0.01 / 0.26
    assert model.mean_loss == pytest.approx(share * 0.5 + (1 - share) * 0.001, rel=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gilbert 1% 0", "r is 0%: the lane would never leave the bad state; use a larger r"),
        ("gilbert 0 1%", "p is 0%: no packet would ever be lost; use a loss of 0"),
        ("4-state 1% 2%", "'4-state 1% 2%' is not 4-state P13 P31 P32 P23 P14: use five probabilities"),
        ("4-state 1% 0 1% 1% 1%", "a burst would never end: use p31 above 0%, and p23 above 0% where p32 is"),
        ("4-state 1% 60% 60% 1% 1%", "p31 and p32 add up to more than 100%"),
        ("0 burst 5", "bursts need a loss above 0% and below 100%"),
        ("1% burst five", "'five' is not a mean burst length: use a number of packets such as 5"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(ValueError) as refusal:
        loss_model.parse(text)
    assert str(refusal.value) == message
