"""Cheats are not comparable, on the simulated device and on the CPU; honest pairs get their verdict."""

import ast
import gc
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import perfmagic
from perfmagic.analysis.bench.same_work import REFUSED, ROWS
from perfmagic.base.errors import CaptureError, OptionError

torch = pytest.importorskip("torch", reason="the work is torch's")

from .cheats import CHEATS, ENDS, POOLS, matrices  # noqa: E402 - need torch
from .honest import HONEST  # noqa: E402

pytestmark = pytest.mark.slow
FEW = {"samples": 6, "warmup": 2}
NAMES = ("first", "other")
NOTES = ("fact", "Condition")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The machine's cores are shared by tests."""
    before, callbacks = torch.get_num_threads(), [*gc.callbacks]
    torch.set_num_threads(1)
    yield
    gc.callbacks[:] = callbacks
    while ENDS:
        ENDS.pop().set()
    while POOLS:
        POOLS.pop().shutdown(cancel_futures=True)
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join()
    torch.set_num_threads(before)


def device_named(kind: str) -> str:
    return str(perfmagic.device("sim", pace="matmul=200us")) if kind == "sim" else "cpu"


CASES = [(name, kind) for name, cheat in CHEATS.items() for kind in cheat.devices]


def test_there_are_thirty_cheats_and_eighteen_honest_pairs_or_more() -> None:
    assert len(CHEATS) >= 30
    assert len(HONEST) >= 18


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_cheat_is_not_comparable_and_the_reason_is_its_own(name: str, kind: str) -> None:
    cheat, device = CHEATS[name], device_named(kind)
    first, other = cheat.make(device)
    inputs = cheat.inputs and cheat.inputs(device)
    found = perfmagic.compare(first, other, inputs=inputs, names=NAMES, **cheat.said, **FEW)
    if cheat.may_be_slower and found.verdict == "slower":
        return
    assert (found.verdict, found.ratio) == ("not comparable", 0.0)
    refused = {check.name for check in found.checks if check.outcome == REFUSED}
    assert refused & {*cheat.rows}, found.checks
    assert found.not_comparable in {check.detail for check in found.checks if check.outcome == REFUSED}


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, pair in HONEST.items() for kind in pair.devices])
def test_an_honest_pair_gets_its_verdict(name: str, kind: str) -> None:
    pair, device = HONEST[name], device_named(kind)
    first, other = pair.make(device)
    found = perfmagic.compare(first, other, inputs=matrices(device, count=pair.count), names=NAMES, **pair.said, **FEW)
    assert found.not_comparable is None
    assert found.verdict in ("faster", "slower", "same", "unclear")


def kinds_found() -> set[str]:
    """Every kind of fact that the source can find, those behind a condition, too."""
    found: set[object] = set()
    for file in (Path(perfmagic.__file__).parent / "capture" / "same_work").rglob("*.py"):
        calls = [node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.Call)]
        kinds = [c.args[0] for c in calls if c.args and getattr(c.func, "attr", getattr(c.func, "id", "")) in NOTES]
        found |= {each.value for kind in kinds for each in _results(kind) if isinstance(each, ast.Constant)}
    return {str(kind) for kind in found}


def _results(kind: ast.expr) -> list[ast.expr]:
    return [kind.body, kind.orelse] if isinstance(kind, ast.IfExp) else [kind]


def test_every_fact_has_its_words() -> None:
    found = kinds_found()
    assert len(found) > 25
    assert found <= {*ROWS}


def doubled(x):
    return x * 2


MAKE = matrices("cpu", count=1)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"inputs": 3}, "a list of arguments, or a function that makes one, not int"),
        ({"inputs": lambda rng: 3}, "the function returned int, a list of arguments is needed"),
        ({"inputs": lambda: [torch.ones(3)]}, "the function is called with a generator of random numbers"),
        ({"inputs": matrices("cpu")}, "does not take the 2 arguments of inputs"),
        ({"inputs": MAKE, "fixed": (4,)}, "numbered 0 to 0"),
        ({"inputs": MAKE, "values": "old"}, "values='old' is not known"),
        ({"inputs": MAKE, "dtype": "float31"}, "not a floating-point type"),
        ({"inputs": MAKE, "equal": 3}, "a function of two results"),
        ({"inputs": MAKE, "check": False}, "inputs are made for the check"),
    ],
)
def test_what_cannot_be_meant_is_said_before_anything_runs(said: dict, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        perfmagic.compare(doubled, doubled, names=NAMES, **said)


def test_a_check_that_fails_itself_is_an_error_and_no_verdict() -> None:
    with pytest.raises(CaptureError, match="equal= raised ZeroDivisionError"):
        perfmagic.compare(doubled, doubled, inputs=MAKE, names=NAMES, equal=lambda a, b: 1 / 0, **FEW)


def test_a_difference_on_values_of_our_own_says_so_and_which_result_it_is() -> None:
    def knows(x):
        return x * 0, x * 2 if bool(x.any()) else x * 0 + 1

    make = lambda rng: [torch.zeros(32, 32)]  # noqa: E731 - a name
    found = perfmagic.compare(lambda x: (x * 0, x * 0 + 1), knows, inputs=make, names=NAMES, **FEW)
    assert "on values drawn by perfmagic" in (found.not_comparable or "")
    assert "(float32, result 2 of 2)" in (found.not_comparable or "")


def test_state_that_nobody_can_look_at_is_named() -> None:
    counted = itertools.count()
    unseen = lambda x: (next(counted), x * 2)[1]  # noqa: E731 - a name
    found = perfmagic.compare(unseen, doubled, inputs=MAKE, names=NAMES, **FEW)
    assert "state not fully inspected: counted" in [check.detail for check in found.checks]


def test_values_that_both_refuse_say_nothing() -> None:
    def make(rng):
        x = torch.randn(16, 16, generator=rng)
        return [x @ x.T + 16 * torch.eye(16)]

    found = perfmagic.compare(
        torch.linalg.cholesky, lambda x: torch.linalg.cholesky(x.mT.mT), inputs=make, names=NAMES, **FEW
    )
    assert found.not_comparable is None


def test_a_function_that_raises_in_the_samples_is_named_and_what_it_raised() -> None:
    count = itertools.count()

    def breaks(x):
        if next(count) > 30_000:
            raise ValueError("of mine")
        return x * 2

    with pytest.raises(ValueError, match="of mine"):
        perfmagic.compare(doubled, breaks, inputs=MAKE, names=NAMES, samples=10_000, warmup=2)
    assert "ValueError: of mine (in other)" in perfmagic.last().text()


def test_what_a_function_prints_is_seen_once(capsys: pytest.CaptureFixture[str]) -> None:
    found = perfmagic.compare(doubled, lambda x: (print("mine"), x + x)[1], inputs=MAKE, names=NAMES, **FEW)
    assert found.not_comparable is None
    assert capsys.readouterr().out == "mine\n"


@pytest.mark.parametrize("kind", ["paced", "virtual"])
def test_queued_work_has_its_time_and_its_verdict(kind: str) -> None:
    device = perfmagic.device("sim", pace="matmul=2ms", clock="virtual" if kind == "virtual" else "real")
    other = lambda x, w: ((x @ w), (x @ w))[1]  # noqa: E731 - twice the work
    try:
        found = perfmagic.compare(lambda x, w: x @ w, other, inputs=matrices(str(device)), names=NAMES, **FEW)
    finally:
        perfmagic.device("sim", clock="real")
    assert found.not_comparable is None
    first, second = (result.done_s for result in found.results)
    assert (first >= 2e-3, second >= 4e-3) == (True, True)
    assert all(result.returns_s < result.done_s for result in found.results)
    if kind == "virtual":
        assert found.verdict == "slower"
        assert second - first == pytest.approx(2e-3, rel=0.01)


def test_a_function_that_only_makes_a_coroutine_is_refused() -> None:
    async def late(x):
        return x * 2

    for other in (late, lambda x: late(x)):  # noqa: PLW0108 - its kind is seen in its result alone
        with pytest.raises(OptionError, match=r"only making the coroutine|unawaited coroutine"):
            perfmagic.compare(doubled, other, inputs=MAKE, names=NAMES, **FEW)


def test_the_user_may_say_what_is_equal() -> None:
    found = perfmagic.compare(doubled, lambda x: x, inputs=MAKE, names=NAMES, equal=lambda a, b: True, **FEW)
    assert "equal= found the results the same" in str([check.detail for check in found.checks])


def test_an_exception_of_one_function_is_raised_and_no_verdict() -> None:
    with pytest.raises(ValueError, match="of mine"):
        perfmagic.compare(doubled, lambda x: (_ for _ in ()).throw(ValueError("of mine")), inputs=MAKE, names=NAMES)


def test_functions_without_arguments_are_compared_on_the_same_inputs_and_that_is_said() -> None:
    found = perfmagic.compare(lambda: sum(range(20_000)), lambda: 199_990_000, names=NAMES, **FEW)
    assert found.verdict == "faster"
    assert "a cache would not show" in found.comparisons[0].note
    other = perfmagic.compare(lambda: sum(range(20_000)), lambda: 7, names=NAMES, **FEW)
    assert other.verdict == "not comparable"


def test_given_objects_are_varied_in_place_and_get_their_values_back() -> None:
    x = torch.randn(32, 32)
    before, seen = x.clone(), set()

    def reads():
        seen.add(float(x[0, 0]))
        return x * 2

    found = perfmagic.compare(reads, lambda: (seen.add(float(x[0, 0])), x + x)[1], inputs=[x], names=NAMES, **FEW)
    assert found.not_comparable is None
    assert len(seen) > 6
    assert torch.equal(x, before)


def test_a_skipped_step_of_training_is_seen_in_the_parameters() -> None:
    model = torch.nn.Linear(8, 8)

    def step(x):
        loss = model(x).square().mean()
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for each in model.parameters():
                each.sub_(each.grad, alpha=0.0)
        return loss.detach()

    make = lambda rng: [torch.randn(4, 8, generator=rng)]  # noqa: E731 - a name for both
    found = perfmagic.compare(step, lambda x: model(x).square().mean().detach(), inputs=make, names=NAMES, **FEW)
    assert found.not_comparable == "first changes model, other does not"


def test_random_numbers_go_on_as_if_nobody_had_drawn_any() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    perfmagic.compare(doubled, doubled, inputs=MAKE, names=NAMES, **FEW)
    assert torch.equal(torch.rand(2), expected)


def test_a_saved_comparison_keeps_the_facts_and_gates_say_the_reason() -> None:
    found = perfmagic.compare(doubled, lambda x: x * 2.01, inputs=MAKE, names=NAMES, **FEW)
    again = type(found).from_json(found.to_json())
    assert (again.verdict, again.not_comparable, again.checks) == (found.verdict, found.not_comparable, found.checks)
    assert found.text().startswith("not comparable: results differ")
    assert "times as fast as" not in found.text()
    assert "not comparable" in found.html()
    assert "slower" not in found.html()
    for gate in (perfmagic.testing.faster, perfmagic.testing.not_slower):
        with pytest.raises(AssertionError, match="not comparable: results differ"):
            gate(lambda x: x * 2.01, doubled, inputs=MAKE, **FEW)


def test_what_is_not_checked_says_so() -> None:
    found = perfmagic.compare(lambda: 1, lambda: 2, names=NAMES, check=False, **FEW)
    assert "(results not compared)" in found.comparisons[0].headline
    assert [check.outcome for check in found.checks] == ["noted"]


def test_threads_that_work_before_any_call_are_charged_to_no_function() -> None:
    ends = threading.Event()

    def work() -> None:
        while not ends.is_set():
            sum(range(1000))

    busy = threading.Thread(target=work)
    busy.start()
    try:
        result = perfmagic.compare(lambda x, w: x @ w, lambda x, w: x.mm(w), inputs=matrices("cpu"), samples=8)
    finally:
        ends.set()
        busy.join()
    assert result.not_comparable == "other threads of this process work all the time: end them first"
