import numpy as np
import pytest

from perfmagic.capture.bench.spec import ComparisonRule, StoppingRule, WarmUp, fewest_samples


def feed(rule: StoppingRule, values, each_s: float = 0.001) -> int:
    """How many samples the rule takes of the values, one every each_s; the last index where they run out."""
    for i, value in enumerate(values, 1):
        rule.add((value,), i * each_s)
        if rule.finished:
            return i
    return len(values)


def noisy(frac: float, n: int = 20_000, seed: int = 1) -> np.ndarray:
    return 1e-3 * (1 + frac * np.random.default_rng(seed).normal(size=n))


def test_equal_samples_end_at_the_least_number_and_the_reason_is_the_interval():
    rule = StoppingRule()
    assert feed(rule, [0.001] * 100) == 20
    assert rule.reason == "stopped when the confidence interval was within ±\u00a01\u00a0%"


@pytest.mark.parametrize(("call_s", "n"), [(0.001, 20), (0.0499, 20), (0.05, 10), (0.49, 10), (0.5, 3), (60.0, 3)])
def test_longer_calls_need_fewer_samples(call_s, n):
    assert fewest_samples(call_s) == n


def test_a_wanted_number_is_taken_exactly_whatever_the_time():
    rule = StoppingRule(wanted=7)
    assert feed(rule, [0.001] * 100, each_s=5.0) == 7
    assert rule.reason == "took the 7 samples asked for"


def test_checks_come_every_sixteen_samples():
    rule = StoppingRule()
    values = [*noisy(0.05, 20), *[0.001] * 1000]
    assert (feed(rule, values) - 20) % 16 == 0


def test_a_wider_target_ends_sooner():
    assert feed(StoppingRule(rel=0.05), noisy(0.1)) < feed(StoppingRule(rel=0.01), noisy(0.1), each_s=1e-5)


def test_noise_that_stays_the_same_ends_the_run_above_the_target_with_the_width_reached():
    rule = StoppingRule(rel=0.0001)
    n = feed(rule, noisy(0.05), each_s=0.001)
    assert 500 <= n < 1500  # not before half a second
    assert rule.reason.startswith("stopped when the noise was stable (±\u00a0")


def test_noise_that_grows_is_ended_by_the_time():
    rule = StoppingRule(rel=0.0001, time_s=2.0)
    growing = noisy(0.05, 3000) + 1e-3 * np.random.default_rng(2).exponential(1, 3000) * np.linspace(0, 4, 3000) ** 2
    assert feed(rule, growing, each_s=0.001) == 2000
    assert rule.reason.startswith("stopped after 2\u00a0s (±")


def test_the_cap_waives_the_least_number():
    rule = StoppingRule()
    assert feed(rule, [6.0] * 10, each_s=6.0) == 2
    assert rule.reason == "stopped at the cap of 10\u00a0s"


def test_a_budget_above_the_cap_raises_the_cap():
    assert feed(StoppingRule(time_s=30.0, rel=1e-9), noisy(0.3), each_s=1.0) == 30


def test_the_worst_of_several_quantities_decides():
    rule = StoppingRule()
    for i, value in enumerate(noisy(0.2, 60), 1):
        rule.add((0.001, value), i * 0.001)
    assert not rule.finished


def test_samples_of_zero_end_the_run_without_a_division():
    assert feed(StoppingRule(), [0.0] * 100) == 20


def test_the_most_that_are_kept_ends_the_run():
    rule = StoppingRule(most=50, rel=1e-9)
    assert feed(rule, noisy(0.2)) == 50
    assert "50 samples" in rule.reason


def warm(values, each_s: float) -> tuple[WarmUp, int]:
    warm_up = WarmUp()
    for i, value in enumerate(values, 1):
        warm_up.add(value, i * each_s)
        if warm_up.finished:
            return warm_up, i
    raise AssertionError("the warm-up never finished")


def test_steady_calls_have_settled_after_two_tenths_of_a_second():
    warm_up, n = warm([0.001] * 5000, each_s=0.001)
    assert warm_up.settled
    assert n == pytest.approx(200, abs=2)


def test_calls_that_become_faster_are_waited_for():
    values = [0.01 * 10 ** (-i / 350) for i in range(350)] + [0.001] * 3000
    warm_up, n = warm(values, each_s=0.001)
    assert warm_up.settled
    assert n == pytest.approx(600, abs=5)  # the halves 0.4 to 0.5 and 0.5 to 0.6 s are the first to agree
    assert warm_up.typical_s() == 0.001


def test_calls_that_go_to_and_fro_are_noise_and_not_waited_for():
    values = [0.002] * 100 + [0.001] * 100 + [0.002] * 100 + [0.001] * 100
    warm_up, n = warm(values, each_s=0.001)
    assert warm_up.settled
    assert n == pytest.approx(300, abs=3)


def test_calls_that_never_agree_are_given_up_after_two_seconds():
    warm_up, n = warm([1.1**i for i in range(100)], each_s=0.05)
    assert not warm_up.settled
    assert n == 40


def test_enough_stays_enough_while_interleaved_bodies_go_on() -> None:
    rule = StoppingRule(fewest=10)
    for _ in range(10):
        rule.add((1.0,), 0.1)
    assert rule.finished
    reason = rule.reason
    rule.add((2.0,), 0.2)
    assert rule.reason == reason


def compare(rule: ComparisonRule, first: np.ndarray, second: np.ndarray, each_s: float = 0.01) -> int:
    """How many passes through two bodies the rule takes, one every each_s."""
    for n in range(1, len(first) + 1):
        rule.add(lambda n=n: [first[:n], second[:n]], n * each_s)
        if rule.finished:
            return n
    raise AssertionError("the comparison never ended")


def test_a_comparison_ends_at_the_first_look_that_is_clear():
    rule = ComparisonRule()
    assert compare(rule, noisy(0.01, 2000), 2 * noisy(0.01, 2000, seed=2)) == 20
    assert rule.reason == "stopped when the comparison was clear"


def test_equal_bodies_are_clear_when_the_interval_lies_within_the_band():
    n = compare(ComparisonRule(band=0.01), noisy(0.02, 2000), noisy(0.02, 2000, seed=2))
    assert 20 < n < 1000
    assert compare(ComparisonRule(band=0.1), noisy(0.02, 2000), noisy(0.02, 2000, seed=2)) == 20


def test_a_comparison_that_stays_unclear_ends_with_its_time():
    rule = ComparisonRule(band=1e-6, time_s=5.0)
    assert compare(rule, noisy(0.02, 2000), noisy(0.02, 2000, seed=2)) == 500
    assert rule.reason == "stopped after 5.00\u00a0s"


def test_long_bodies_are_compared_beyond_the_time_until_a_verdict_can_be_had():
    rule = ComparisonRule(time_s=5.0)
    assert compare(rule, noisy(0.3, 20), noisy(0.3, 20, seed=2), each_s=4.0) == 8
    assert compare(ComparisonRule(time_s=5.0), noisy(0.3, 20), noisy(0.3, 20, seed=2), each_s=13.0) == 5  # a minute


def test_samples_are_looked_at_only_when_a_look_is_due():
    rule, looks = ComparisonRule(time_s=1e9), []
    same = noisy(0.3, 200)
    for n in range(1, 60):
        rule.add(lambda n=n: looks.append(n) or [same[:n], noisy(0.3, n, seed=n)], 0.0)
    assert looks[:4] == [20, 25, 31, 38]  # a quarter more each time
