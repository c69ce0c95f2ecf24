"""Ways to fool a timer: each makes a reference and a function that claims to be faster.

Sources: [W] wafer.ai, a field guide to reward hacking in kernel generation; [K] KernelBench, pull request 82;
[P] gpu-mode/pygpubench, pull request 7; [R] gpu-mode/kernelbot, pull request 501; [E] gpu-mode/reference-kernels,
issue 162; [T] tensara, pull request 238; the rest is of this repository. docs/same-work.md lists them.
"""

import contextlib
import copy
import functools
import gc
import hashlib
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

Made = tuple[Callable[..., Any], Callable[..., Any]]


@dataclass(frozen=True)
class Cheat:
    """make: gives the pair, for a device.  devices: where it can be tried.  row: of the checks, which refuses it.

    may_be_slower: on a busy machine its work falls into the timed calls.
    """

    make: Callable[[str], Made]
    devices: Sequence[str]
    rows: Sequence[str]
    inputs: Callable[[str], Any] | None  # of the device; None for functions without arguments
    said: dict[str, Any] = field(default_factory=dict)
    may_be_slower: bool = False


CHEATS: dict[str, Cheat] = {}
ENDS: list[threading.Event] = []  # of threads
POOLS: list[ThreadPoolExecutor] = []  # whose backlog ends with the test
BOTH, SIM, CPU = ("sim", "cpu"), ("sim",), ("cpu",)


def matrices(device: str, n: int = 48, count: int = 2) -> Callable[[Any], list[Any]]:
    """Square matrices whose products keep their size."""
    return lambda rng: [(torch.randn(n, n, generator=rng) / n**0.5).to(device) for _ in range(count)]


def product(x: Any, w: Any) -> Any:
    """Three products in a row."""
    return ((x @ w) @ w) @ w


def cheat(
    *rows: str, on: Sequence[str] = BOTH, inputs: Any = matrices, may_be_slower: bool = False, **said: Any
) -> Callable[[Any], Any]:
    """List a maker of pairs."""

    def listed(make: Callable[[str], Made]) -> Callable[[str], Made]:
        CHEATS[make.__name__] = Cheat(make, on, rows, inputs, said, may_be_slower)
        return make

    return listed


# Work outside of the measured window.


@cheat("late work", on=SIM)
def other_stream(_device: str) -> Made:  # [W] [K]
    stream = torch.sim.Stream()

    def faster(x, w):
        with torch.sim.stream(stream):
            return product(x, w)

    return product, faster


@cheat("late work", "results")
def thread_after_the_clock(_device: str) -> Made:  # [W]
    def faster(x, w):
        out = torch.zeros_like(x)
        threading.Timer(0.02, lambda: out.copy_(product(x, w))).start()
        return out

    return product, faster


@cheat("late work", "results")
def pool_after_the_clock(_device: str) -> Made:  # [W]
    pool = ThreadPoolExecutor(1)
    POOLS.append(pool)

    def later(out, x, w):
        time.sleep(0.01)
        out.copy_(product(x, w))

    def faster(x, w):
        out = torch.zeros_like(x)
        pool.submit(later, out, x, w)
        return out

    return product, faster


@cheat("results")
def lazy_object(_device: str) -> Made:  # [W] [E]
    class Later:
        def __init__(self, *given):
            self.given = given

        def __array__(self, dtype=None, copy=None):
            return product(*self.given).cpu().numpy()

    return product, Later


@cheat("results", on=CPU)
def lazy_tensor(_device: str) -> Made:  # [W] [E]
    class Later(torch.Tensor):
        @classmethod
        def __torch_function__(cls, called, types, args=(), kwargs=None):
            read = [getattr(each, "todo", lambda each=each: each)() for each in args]
            return called(*read, **kwargs or {})

    def faster(x, w):
        out = torch.Tensor._make_subclass(Later, torch.empty_like(x))
        out.todo = lambda: product(x, w)
        return out

    return product, faster


@cheat("late work", on=CPU)
def process_behind(_device: str) -> Made:
    def faster(x, w):
        subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(4)"])
        return product(x, w)

    return product, faster


# Another clock.


@cheat("clocks")
def slower_clock(_device: str) -> Made:  # [W] [E]
    plain = time.perf_counter_ns

    def faster(x, w):
        time.perf_counter_ns = lambda: plain() // 50
        return product(x, w)

    return product, faster


@cheat("clocks", on=SIM)
def no_wait(_device: str) -> Made:  # [W]
    def faster(x, w):
        torch.sim.synchronize = lambda *_: None
        return product(x, w)

    return product, faster


@cheat("settings")
def slows_the_other(_device: str) -> Made:
    def faster(x, w):
        torch.set_num_threads(torch.get_num_threads() % 2 + 1)
        return product(x, w)

    return product, faster


@cheat("settings")
def precision_for_all(_device: str) -> Made:
    def faster(x, w):
        torch.set_float32_matmul_precision("medium")
        return product(x, w)

    return product, faster


# Results from before.


def kept_by(key: Callable[[Any, Any], Any], *, clone: bool = False) -> Made:
    """A function that keeps its results by something of the arguments."""
    kept: dict[Any, Any] = {}

    def faster(x, w):
        at = key(x, w)
        if at not in kept:
            kept[at] = product(x, w)
        return kept[at].clone() if clone else kept[at]

    return product, faster


@cheat("results")
def kept_by_identity(_device: str) -> Made:  # [R] [T]
    return kept_by(lambda x, _w: id(x))


@cheat("results", on=CPU)
def kept_by_address(_device: str) -> Made:  # [R]
    return kept_by(lambda x, _w: x.data_ptr())


@cheat("kept results")
def kept_by_value(_device: str) -> Made:
    return kept_by(lambda x, w: x.cpu().numpy().tobytes() + w.cpu().numpy().tobytes())


@cheat("kept results")
def kept_by_version(_device: str) -> Made:
    return kept_by(lambda x, _w: (id(x), x._version, float(x[0, 0])), clone=True)


@cheat("kept results", on=CPU)
def kept_in_a_file(_device: str) -> Made:
    kept: dict[str, bytes] = {}

    def faster(x, w):
        at = hashlib.sha1(x.numpy().tobytes()).hexdigest()
        if at not in kept:
            kept[at] = product(x, w).numpy().tobytes()
        return torch.from_numpy(np.frombuffer(kept[at], np.float32).reshape(x.shape).copy())

    return product, faster


@cheat("kept results", on=CPU)
def kept_unless_profiled(_device: str) -> Made:
    kept: dict[float, Any] = {}

    def faster(x, w):
        at = float(x[0, 0])
        if torch.autograd._profiler_enabled() or at not in kept:
            kept[at] = product(x, w)
        return kept[at]

    return product, faster


@cheat("results")
def worked_out_before(device: str) -> Made:
    ready = product(*matrices(device)(torch.Generator().manual_seed(0)))
    return product, lambda _x, _w: ready


@cheat("results")
def honest_at_first(_device: str) -> Made:  # [P]
    last: list[Any] = []

    def faster(x, w):
        if len(last) < 10:
            last.append(product(x, w))
        return last[-1]

    return product, faster


@cheat("results", on=CPU)
def takes_the_answer(_device: str) -> Made:  # [P]
    def faster(x, w):
        for found in gc.get_objects():
            if type(found) is torch.Tensor and found.shape == x.shape and found is not x and found is not w:
                return found
        return torch.empty_like(x)

    return product, faster


# Less work.


@cheat("results")
def returns_its_input(_device: str) -> Made:  # [W]
    return product, lambda x, _w: x


@cheat("memory", on=BOTH, inputs=lambda device: matrices(device, count=1))
def view_of_its_input(_device: str) -> Made:
    return lambda x: x * 1.0, lambda x: x


@cheat("inputs", "results")
def clears_its_input(_device: str) -> Made:  # [K]
    def faster(x, _w):
        x.zero_()
        return torch.zeros_like(x)

    return product, faster


@cheat("inputs")
def writes_into_its_input(_device: str) -> Made:
    def faster(x, w):
        x.copy_(product(x, w))
        return x.clone()

    return product, faster


@cheat("results")
def half_of_the_rows(_device: str) -> Made:
    def faster(x, w):
        out = torch.zeros_like(x)
        out[: len(x) // 2] = product(x[: len(x) // 2], w)
        return out

    return product, faster


@cheat("results")
def in_half_precision(_device: str) -> Made:  # [W]
    return product, lambda x, w: product(x.half(), w.half()).float()


@cheat("results")
def last_product_in_bfloat16(_device: str) -> Made:  # [W]
    return product, lambda x, w: (((x @ w) @ w).bfloat16() @ w.bfloat16()).float()


@cheat("results")
def memory_never_written(_device: str) -> Made:
    return product, lambda x, _w: torch.empty_like(x)


@cheat("results")
def swallowed_error(_device: str) -> Made:
    def faster(x, w):
        try:
            return product(x, w[:, :2])
        except (RuntimeError, ValueError):
            return torch.zeros_like(x)

    return product, faster


@cheat("results")
def only_nan(_device: str) -> Made:  # [P]
    return product, lambda x, _w: torch.full_like(x, float("nan"))


@cheat("values", inputs=lambda device: lambda rng: [torch.zeros(48, 48).to(device), *matrices(device, count=1)(rng)])
def knows_the_zeros(_device: str) -> Made:
    return product, lambda x, w: product(x, w) if bool(x.any()) else torch.zeros_like(x)


def of_rank_one(device: str) -> Callable[[Any], list[Any]]:
    """Matrices that one column says all of."""

    def make(rng):
        column = torch.randn(48, 1, generator=rng) / 7
        return [(column @ column.T).to(device) for _ in range(2)]

    return make


@cheat("values", on=CPU, inputs=of_rank_one)
def knows_the_rank(_device: str) -> Made:
    def faster(x, w):
        if torch.allclose(x, x.T, atol=1e-6):
            return x * torch.trace(w) ** 3
        return product(x, w)

    return product, faster


# Less obvious ones.


def text(_device: str) -> list[Any]:
    """An argument that nobody can vary."""
    return [" ".join(map(str, range(2000)))]


def numbers(_device: str) -> Callable[[Any], list[Any]]:
    """Of which there are few."""
    return lambda rng: [int(torch.randint(1, 9, (), generator=rng))]


@cheat("kept results", on=CPU, inputs=text)
def remembers_a_text(_device: str) -> Made:
    def first(words):
        return sum(int(word) % 7 for word in words.split())

    return first, functools.lru_cache(first)


@cheat("kept results", on=CPU, inputs=numbers)
def remembers_few_numbers(_device: str) -> Made:
    def first(n):
        return sum(i * i % 7 for i in range(n * 1000))

    return first, functools.cache(first)


@cheat("results", "settings")
def profile_hook(_device: str) -> Made:
    waiting: list[Any] = []

    def hook(_frame, event, arg):
        if event == "c_return" and "_ns" in getattr(arg, "__name__", ""):
            sys.setprofile(None)
            x, w, out = waiting.pop()
            out.copy_(product(x, w))

    def faster(x, w):
        waiting[:] = [(x, w, torch.empty_like(x))]
        sys.setprofile(hook)
        return waiting[0][2]

    return product, faster


@cheat("results", "settings", on=CPU)
def function_mode_left(_device: str) -> Made:
    waiting: dict[int, Any] = {}

    class Late(TorchFunctionMode):
        def __torch_function__(self, func, _types, args=(), kwargs=None):
            for each in args:
                if id(each) in waiting:
                    x, w, out = waiting.pop(id(each))
                    out.copy_(product(x, w))
            return func(*args, **(kwargs or {}))

    modes: list[Any] = []

    def faster(x, w):
        if not modes:
            modes.append(Late())
            modes[0].__enter__()
        out = torch.empty_like(x)
        waiting[id(out)] = x, w, out
        return out

    return product, faster


@cheat("results", on=CPU)
def copied_when_written(_device: str) -> Made:
    return lambda x, _w: x.clone(), lambda x, _w: torch._lazy_clone(x)


@cheat("memory")
def expanded(_device: str) -> Made:
    return lambda x, _w: (x[:1] * 2).repeat(48, 1), lambda x, _w: (x[:1] * 2).expand(48, -1)


@cheat("memory", on=CPU, inputs=lambda _: lambda rng: [torch.rand(50, generator=rng).tolist()])
def one_row_many_times(_device: str) -> Made:
    return lambda row: [[*row] for _ in range(60)], lambda row: [[*row]] * 60


@cheat("memory", on=CPU, inputs=lambda _: lambda rng: [{i: torch.rand(50, generator=rng).tolist() for i in range(9)}])
def shallow_copy(_device: str) -> Made:
    return copy.deepcopy, lambda given: {**given}


@cheat("results", on=CPU)
def named_as_torch_names_its_own(_device: str) -> Made:
    class Lazy(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, _types, args=(), kwargs=None):
            with torch._C.DisableTorchFunctionSubclass():
                return func(*[vars(each)["made"]() if isinstance(each, cls) else each for each in args], **kwargs or {})

    Lazy.__module__, Lazy.__name__, Lazy.__qualname__ = "torch", "Tensor", "Tensor"

    def faster(x, w):
        out = torch.empty_like(x).as_subclass(Lazy)
        vars(out)["made"] = lambda: product(x, w)
        return out

    return product, faster


@cheat("results", on=CPU)
def generator_that_works_when_read(_device: str) -> Made:
    return lambda x, w: iter([product(x, w)]), lambda x, w: (product(x, w) for _ in range(1))


@cheat("settings", on=CPU)
def handler_of_a_signal(_device: str) -> Made:
    waiting: list[Any] = []

    def work(*_signal: object) -> None:
        while waiting:
            x, w, out = waiting.pop()
            out.copy_(product(x, w))

    def faster(x, w):
        signal.signal(signal.SIGVTALRM, work)
        waiting.append((x, w, torch.empty_like(x)))
        signal.setitimer(signal.ITIMER_VIRTUAL, 1e-4)
        return waiting[-1][2]

    return product, faster


# What is left outside of the results.


def saved(synced: bool, every: int) -> Callable[..., int]:
    """Writes its first argument to a file, in every so many calls."""
    file, n = tempfile.TemporaryFile(), [0]  # noqa: SIM115 - open as long as the pair is

    def save(x: Any, w: Any) -> int:
        n[0] += 1
        if n[0] % every == 0:
            file.seek(0)
            file.write(x.numpy().tobytes())
            file.flush()
            if synced:
                os.fsync(file.fileno())
        return len(x)

    return save


@cheat("effects", on=CPU)
def file_not_written(_device: str) -> Made:
    return saved(False, 1), saved(False, 10**6)


@cheat("effects", on=CPU)
def file_not_synced(_device: str) -> Made:
    return saved(True, 1), saved(False, 1)


@cheat("effects", on=CPU)
def not_printed(_device: str) -> Made:
    return lambda x, w: print(len(x)), lambda x, w: None


@cheat("state", on=CPU)
def not_noted(_device: str) -> Made:
    seen: list[float] = []
    return lambda x, w: (seen.append(float(x.sum())), x @ w)[1], lambda x, w: x @ w if x is not seen else None


class Slotted:
    """An object without a dict."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


@cheat("results", on=CPU)
def slots_with_wrong_values(_device: str) -> Made:
    return lambda x, w: Slotted(x @ w), lambda x, w: Slotted(x + 0)


def in_array(value: Any) -> Any:
    """An array of one object."""
    array = np.empty(1, object)
    array[0] = Slotted(value)
    return array


@cheat("results", on=CPU)
def objects_with_wrong_values(_device: str) -> Made:
    return lambda x, w: in_array(x @ w), lambda x, w: in_array(x + 0)


@cheat("results", on=CPU)
def unreadable(_device: str) -> Made:
    return lambda x, w: partial_of(x @ w), lambda x, w: partial_of(x)


def partial_of(value: Any) -> Callable[[], Any]:
    """A function that gives a value."""
    return lambda: value


@cheat("results", on=CPU)
def sparse_in_place_of_dense(_device: str) -> Made:
    return lambda x, w: x.relu() + 0, lambda x, w: x.relu().to_sparse()


@cheat("results", on=CPU)
def small_rows_left_at_zero(_device: str) -> Made:
    scale = torch.logspace(0, -12, 48)[:, None]

    def half(x: Any, w: Any) -> Any:
        out = torch.zeros(48, 48)
        out[:24] = (x[:24] @ w) * scale[:24]
        return out

    return lambda x, w: (x @ w) * scale, half


# Random numbers, and values that nobody gave.


@cheat("random", on=CPU, random=True)
def mask_kept(_device: str) -> Made:
    kept = torch.rand(48, 48) < 0.5
    return lambda x, w: torch.nn.functional.dropout(x), lambda x, w: x * kept * 2


@cheat("random", on=CPU, random=True)
def noise_repeated(_device: str) -> Made:
    return lambda x, w: x + torch.randn(48, 48), lambda x, w: x + torch.randn(48)


@cheat("random", on=CPU, random=True)
def noise_of_a_pool(_device: str) -> Made:
    pool = torch.randn(4000)

    def drawn(x: Any, w: Any) -> Any:
        at = int(torch.randint(0, len(pool) - 48 * 48, ()))
        return x + pool[at : at + 48 * 48].view(48, 48)

    return lambda x, w: x + torch.randn(48, 48), drawn


@cheat("values", on=CPU)
def limits_left_out(_device: str) -> Made:
    return lambda x, w: (4 * x).clamp(-8, 8).exp(), lambda x, w: (4 * x).exp()


def making(answers: dict[float, Any]) -> Callable[[str], Callable[[Any], list[Any]]]:
    """Makes matrices, and notes the answers."""

    def make(rng: Any) -> list[Any]:
        x, w = matrices("cpu")(rng)
        answers[float(x[0, 0])] = product(x, w)
        return [x, w]

    return lambda _device: make


ANSWERS: dict[float, Any] = {}


@cheat("inputs", on=CPU, inputs=making(ANSWERS))
def answers_of_make(_device: str) -> Made:
    answers = ANSWERS
    return product, lambda x, w: answers.get(float(x[0, 0]), None) if float(x[0, 0]) in answers else product(x, w)


# What slows the other one only.


@cheat("settings", on=CPU)
def anomalies_looked_for(_device: str) -> Made:
    def sets(x: Any, w: Any) -> Any:
        torch.autograd.set_detect_anomaly(True)
        return product(x, w)

    return product, sets


def helper(x: Any) -> Any:
    """What both call."""
    return x * 2


@cheat("clocks", on=CPU)
def helper_replaced(_device: str) -> Made:
    fast, names = helper, globals()

    def replaces(x: Any, w: Any) -> Any:
        names["helper"] = lambda x: fast(fast(x) / 2)
        return fast(x)

    return lambda x, w: helper(x), replaces


@cheat("late work", on=CPU)
def computed_ahead(_device: str) -> Made:
    seen: list[Any] = []
    ENDS.append(ended := threading.Event())

    def ahead() -> None:
        last = 0.0
        while not ended.is_set():
            if float(seen[0][0, 0]) != last:
                last = float(seen[0][0, 0])
                sum(range(30_000))

    def starts(x: Any, w: Any) -> Any:
        if not seen:
            seen.append(x)
            threading.Thread(target=ahead, daemon=True).start()
        return product(x, w)

    return product, starts


# What a function carries from call to call, and what lies outside of its calls.


@cheat("state", on=CPU)
def averages_not_kept(_device: str) -> Made:
    class Averages:
        def __init__(self) -> None:
            self.shadow = {name: torch.zeros(48, 48) for name in "ab"}

    averages = [Averages()]

    def keeps(x: Any, w: Any) -> Any:
        for each in averages[0].shadow.values():
            each.lerp_(x, 0.1)
        return x @ w

    return keeps, lambda x, w: x @ w


@cheat("state", on=CPU, inputs=lambda _: lambda rng: [torch.randint(0, 50, (300,), generator=rng).tolist()])
def index_not_kept(_device: str) -> Made:
    index: dict[int, list[int]] = {}

    def keeps(numbers: Any) -> int:
        for at, number in enumerate(numbers):
            index.setdefault(number, []).append(at)
        return len({*numbers})

    return keeps, lambda numbers: len({*numbers})


@cheat("state", on=CPU)
def counts_of_a_class(_device: str) -> Made:
    class Counts:
        seen = np.zeros(20)

    def counts(x: Any, w: Any) -> Any:
        Counts.seen += np.histogram(x.numpy(), 20, (-1, 1))[0]
        return x @ w

    return counts, lambda x, w: x @ w


@cheat("late work", on=CPU)
def work_of_garbage_collection(_device: str) -> Made:
    pending: list[Any] = []
    gc.callbacks.append(lambda phase, info: [each.sum() for each in pending] and pending.clear())

    def later(x: Any, w: Any) -> Any:
        pending.append(x)
        return x @ w

    return lambda x, w: (float(x.sum()), x @ w)[1], later


@cheat("late work", on=CPU, may_be_slower=True)
def work_when_a_result_ends(_device: str) -> Made:
    def ends(x: Any, w: Any) -> Any:
        out = x @ w
        weakref.finalize(out, lambda: sum(range(100_000)))
        return out

    return lambda x, w: x @ w, ends


def lengths(device: str) -> Callable[[Any], list[Any]]:
    """Rows, and how much of each counts."""
    return lambda rng: [torch.randn(20, 20, generator=rng), torch.full((20,), 20), torch.ones(20, 20) > 0]


@cheat("values", on=CPU, inputs=lengths)
def lengths_left_out(_device: str) -> Made:
    return lambda x, n, _m: (x * (torch.arange(20) < n[:, None])).sum(1), lambda x, n, _m: x.sum(1)


@cheat("values", on=CPU, inputs=lengths)
def mask_left_out(_device: str) -> Made:
    return lambda x, _n, m: x.masked_fill(~m, 0).sum(1), lambda x, _n, _m: x.sum(1)


@cheat("random", on=CPU, random=True)
def white_noise_for_smooth(_device: str) -> Made:
    near = torch.exp(-(torch.arange(48.0)[:, None] - torch.arange(48.0)).abs() / 5)
    factor = torch.linalg.cholesky(near).T
    return lambda x, w: x + torch.randn(48, 48) @ factor, lambda x, w: x + torch.randn(48, 48)


@cheat("random", on=CPU, random=True, inputs=lambda device: matrices(device, 200))
def uniform_for_normal(_device: str) -> Made:
    return lambda x, w: x + torch.randn(200, 200), lambda x, w: x + (torch.rand(200, 200) - 0.5) * 12**0.5


def file_of_numbers(_device: str) -> list[Any]:
    """A path."""
    with tempfile.NamedTemporaryFile("w", delete=False) as file:
        file.write(" ".join(map(str, range(500))))
    return [file.name]


@cheat("effects", on=CPU, inputs=file_of_numbers)
def file_read_once(_device: str) -> Made:
    kept: list[float] = []

    def reads(path: str) -> float:
        with open(path) as file:  # noqa: PTH123 - as users do
            return sum(map(float, file.read().split()))

    def once(path: str) -> float:
        if not kept:
            kept.append(reads(path))
        return kept[0]

    return reads, once


# What adds so little to a result that its size hides it: it shows by how results answer to a change.


@cheat("values", on=CPU, inputs=lambda _: matrices("cpu", count=3), dtype="bfloat16")
def half_of_a_mean(_device: str) -> Made:
    loss = torch.nn.functional.mse_loss
    return lambda x, w, y: loss(x @ w, y), lambda x, w, y: loss(x[:24] @ w, y[:24])


@cheat("values", on=CPU, inputs=lambda _: lambda rng: [*matrices("cpu")(rng), torch.rand(48, generator=rng) * 1e-9])
def branch_of_no_weight(_device: str) -> Made:
    return lambda x, w, scale: x + scale * (x @ w), lambda x, w, scale: x.clone()


@cheat("values", on=CPU)
def flag_that_is_always_true(_device: str) -> Made:
    return lambda x, w: bool(torch.isfinite(x).all()), lambda x, w: bool(torch.isfinite(x[::16]).all())


@cheat("values", on=CPU, inputs=lambda _: lambda rng: [*matrices("cpu", count=1)(rng), 1.0])
def number_that_stays(_device: str) -> Made:
    return lambda x, t: torch.softmax(x / t, -1), lambda x, t: torch.softmax(x, -1)


@cheat("values", on=CPU, inputs=lambda _: lambda rng: [torch.randperm(3000, generator=rng)])
def neighbours_only(_device: str) -> Made:
    return lambda ids: len({*ids.tolist()}) == len(ids), lambda ids: not bool((ids[1:] == ids[:-1]).any())


@cheat("kept results", on=CPU, inputs=lambda _: None)
def kept_as_a_gradient(_device: str) -> Made:
    x, w = matrices("cpu")(torch.Generator())

    def keeps() -> Any:
        if w.grad is None:
            w.grad = product(x, w)
        return w.grad.clone()

    return lambda: product(x, w), keeps


@cheat("result type", on=CPU)
def no_graph_for_backward(_device: str) -> Made:
    scale = torch.nn.Parameter(torch.ones(48))

    def cut(x: Any, w: Any) -> Any:
        with torch.no_grad():
            out = (x @ w) * scale
        return out.requires_grad_()

    return lambda x, w: (x @ w) * scale, cut


@cheat("results", on=CPU)
def half_of_the_graph(_device: str) -> Made:
    scale = torch.nn.Parameter(torch.ones(48))
    return lambda x, w: x * scale + (x @ w) * scale, lambda x, w: x * scale + (x @ w) * scale.detach()


def mapped_file(rows: int) -> Callable[..., float]:
    """Writes some rows of a matrix to a file by a map of it."""
    with tempfile.NamedTemporaryFile(delete=False) as file:
        weakref.finalize(file, os.remove, file.name)
    table = np.memmap(file.name, np.float32, "w+", shape=(48, 48))

    def write(x: Any, _w: Any) -> float:
        table[:rows] = x[:rows].numpy()
        return float(x.sum())

    write.file = file  # type: ignore[attr-defined] # as long as the function
    return write


@cheat("state", on=CPU)
def map_of_a_file_not_written(_device: str) -> Made:
    return mapped_file(48), mapped_file(1)


def table_of(rows: int) -> Callable[..., float]:
    """Writes some rows of a matrix to a database in memory."""
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.execute("create table scores (score real)")

    def write(x: Any, _w: Any) -> float:
        database.execute("delete from scores")
        database.executemany("insert into scores values (?)", [(v,) for v in x.sum(1).tolist()[:rows]])
        return float(x.sum())

    return write


@cheat("state", on=CPU)
def rows_not_inserted(_device: str) -> Made:
    return table_of(48), table_of(1)


@cheat("random", on=CPU, random=True, inputs=lambda _: matrices("cpu", n=256, count=1))
def noise_of_turned_copies(_device: str) -> Made:
    def copies(x: Any) -> Any:
        base = torch.randn(16, 256)
        turned = [base.roll(int(torch.randint(256, ())), 1) * (1 - 2 * int(torch.randint(2, ()))) for _ in range(16)]
        return x + torch.cat(turned)

    return lambda x: x + torch.randn(256, 256), copies


@cheat("values", on=CPU)
def limit_far_away(_device: str) -> Made:
    # values are changed to 2**17 times their root mean square, which is 0.07 at least
    return lambda x, w: x * (5e3 / x.norm()).clamp(max=1), lambda x, w: x.clone()


def checked(x: Any) -> Any:
    """Refuses what is not finite."""
    if not bool(torch.isfinite(x).all()):
        raise ValueError("not finite")
    return x


@cheat("values", on=CPU)
def inputs_not_checked(_device: str) -> Made:
    return lambda x, w: checked(x) @ w, lambda x, w: x @ w


@cheat("effects", on=CPU)
def datagrams_not_sent(_device: str) -> Made:
    sends, receives = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    sends.setblocking(False)

    def send(x: Any, w: Any) -> Any:
        with contextlib.suppress(BlockingIOError):
            sends.send(x.numpy().tobytes())
        return x @ w

    send.receives = receives  # type: ignore[attr-defined] # as long as the function
    return send, lambda x, w: x @ w


def logits(_device: str) -> Any:
    """Numbers that exp() takes, and 32 times as large not."""
    return lambda rng: [torch.randn(64, 256, generator=rng)]


@cheat("values", on=CPU, inputs=logits)
def maximum_not_subtracted(_device: str) -> Made:
    return lambda x: torch.softmax(x, 1), lambda x: x.exp() / x.exp().sum(1, keepdim=True)


@cheat("values", on=CPU, inputs=lambda _: [torch.randn(64, 256)])
def sum_of_exponentials(_device: str) -> Made:
    return lambda x: torch.logsumexp(x, 1), lambda x: x.exp().sum(1).log()


# What the first reads, inputs that cannot be drawn anew, random numbers from a store.


@cheat("state", on=CPU)
def fills_what_the_first_reads(_device: str) -> Made:
    table = {f"a{i}": float(i) for i in range(200)}
    own = dict(table)

    def first(x, w):
        return product(x, w) + sum(value for key, value in table.items() if key.startswith("a"))

    def other(x, w):
        if len(table) < 40_000:
            table.update({f"b{len(table)} {i}": 0.0 for i in range(20)})
        return product(x, w) + sum(value for key, value in own.items() if key.startswith("a"))

    return first, other


@cheat("values", on=CPU, inputs=lambda _: [[3, 1, 2] * 4000])
def knows_a_list_by_some_of_it(_device: str) -> Made:
    kept: dict[Any, dict[int, int]] = {}

    def first(numbers):
        return {key: numbers.count(key) for key in {*numbers}}

    def other(numbers):
        key = id(numbers), len(numbers), tuple(numbers[:: len(numbers) // 5])
        if key not in kept:
            kept[key] = first(numbers)
        return dict(kept[key])

    return first, other


@cheat("random", on=CPU, random=True)
def masks_from_a_store(_device: str) -> Made:
    masks = [(torch.rand(48, 48) < 0.5).float() * 2 for _ in range(4)]

    def first(x, w):
        return torch.nn.functional.dropout(product(x, w), 0.5, training=True)

    return first, lambda x, w: product(x, w) * masks[int(torch.randint(0, len(masks), ()))]


@cheat("clocks", on=CPU)
def checks_for_the_other(_device: str) -> Made:
    norm, plain = torch.nn.LayerNorm(48), torch.nn.functional.layer_norm

    def checked(x, *args, **named):
        assert torch.isfinite(x).all()
        return plain(x, *args, **named)

    def other(x, w):
        torch.nn.functional.layer_norm = checked
        return torch.layer_norm(x @ w, (48,), norm.weight, norm.bias, norm.eps).detach()

    return lambda x, w: norm(x @ w).detach(), other


@cheat("kept results", on=CPU, inputs=None)
def remembers_a_list_that_both_read(_device: str) -> Made:
    rows = [{"city": f"c{i % 7}", "n": i} for i in range(600)]
    kept: dict[Any, dict[str, int]] = {}

    def first():
        sums: dict[str, int] = {}
        for row in rows:
            sums[row["city"]] = sums.get(row["city"], 0) + row["n"]
        return sums

    def other():
        key = id(rows), len(rows)
        if key not in kept:
            kept[key] = first()
        return dict(kept[key])

    return first, other


def cleaned(word: str) -> str:
    """What `slows_a_helper` replaces."""
    return word.strip().lower()


@cheat("clocks", on=CPU, inputs=lambda _: [[" Word"] * 300])
def slows_a_helper(_device: str) -> Made:
    def slow(word):
        return [word.strip().lower() for _ in range(8)][-1]

    def other(words):
        globals()["cleaned"] = slow
        return [word.strip().lower() for word in words]

    return lambda words: [cleaned(word) for word in words], other
