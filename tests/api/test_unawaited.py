"""An asynchronous function is refused: its call only makes a coroutine, and that is no time of its code."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest

import perfmagic
from perfmagic.base.errors import OptionError

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("error")]  # a coroutine that nobody awaited


async def waits(_value: int = 0) -> None:
    await asyncio.sleep(0)


async def counts() -> AsyncIterator[int]:
    yield 1


class Step:
    async def __call__(self) -> None: ...

    async def method(self) -> None: ...


BODIES: dict[str, Callable[[], object]] = {
    "async def": waits,
    "lambda": lambda: waits(),  # noqa: PLW0108 - a lambda is what is tested
    "partial": partial(partial(waits), 1),
    "object": Step(),
    "method": Step().method,
    "async generator": counts,
    "lambda of a generator": lambda: counts(),  # noqa: PLW0108
}
FUNCTIONS: dict[str, Callable[[Callable[..., object]], object]] = {
    "bench": perfmagic.bench,
    "syncbench": perfmagic.syncbench,
    "compare": lambda body: perfmagic.compare(int, body, samples=3),
    "sweep": lambda body: perfmagic.sweep(lambda _: body(), [1, 2]),
    "graph": perfmagic.graph,
    "not_slower": lambda body: perfmagic.testing.not_slower(body, int),
    "faster": lambda body: perfmagic.testing.faster(int, body),
    "peak_below": lambda body: perfmagic.testing.peak_below(body, "1 GB"),
    "no_growth": perfmagic.testing.no_growth,
    "setup_each": lambda body: perfmagic.bench(int, setup_each=body),
}


@pytest.mark.parametrize("kind", BODIES)
def test_every_kind_of_asynchronous_function_is_an_error(kind: str) -> None:
    with pytest.raises(OptionError, match="only making the coroutine would be measured"):
        perfmagic.bench(BODIES[kind])


@pytest.mark.parametrize("kind", ["async def", "lambda"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_rejects_a_coroutine_function_with_a_hint(name: str, kind: str) -> None:
    with pytest.raises(OptionError, match=r"a function that returns asyncio.run\(f\(\)\)"):
        FUNCTIONS[name](BODIES[kind])


def test_the_hint_works() -> None:
    assert perfmagic.bench(lambda: asyncio.run(waits()), samples=2, warmup=0).n_calls > 0


def test_a_running_task_is_an_error_too() -> None:
    async def main() -> None:
        tasks: list[asyncio.Task[None]] = []

        def begin() -> asyncio.Task[None]:
            tasks.append(asyncio.ensure_future(waits()))
            return tasks[-1]

        with pytest.raises(OptionError, match="unawaited Task"):
            perfmagic.bench(begin)
        await asyncio.gather(*tasks)

    asyncio.run(main())


def test_a_roofline_accepts_results_but_no_functions() -> None:
    peaks = perfmagic.Peaks(flop_per_s={"fp32": 1e9}, bytes_per_s=1e9)
    with pytest.raises(OptionError, match="roofline: the result of a benchmark is needed"):
        perfmagic.roofline(waits, peaks=peaks)  # type: ignore[arg-type]
