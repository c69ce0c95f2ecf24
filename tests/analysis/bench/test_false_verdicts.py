"""400 comparisons of equal code, as perfmagic.compare takes and judges them: no false verdict."""

import numpy as np
import pytest

from perfmagic.analysis.bench.compare import compare
from perfmagic.analysis.bench.result import summarise
from perfmagic.capture.bench.engine import BenchSpec
from perfmagic.capture.bench.interleave import measure_interleaved

pytestmark = pytest.mark.slow


COMPARISONS = 400


class NoisyClock:
    """A machine on which all bodies take 100 ms, times its speed: noise, drift, steps and interruptions."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._rho, self._drift = self._random.choice([0.0, 0.3, 0.6, 0.9]), self._random.choice([0.0, 0.05, 0.3])
        self._noise, self._step_at, self._calls = 0.0, self._random.integers(10, 400), 0
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def body(self) -> None:
        """One call."""
        self._calls += 1
        self._noise = self._rho * self._noise + (1 - self._rho**2) ** 0.5 * self._random.standard_normal()
        speed = 1 + 0.03 * self._noise + self._drift * self._calls / 200
        speed *= 1.5 if self._calls > self._step_at else 1.0
        speed *= self._random.uniform(1.3, 3.0) if self._random.random() < 0.05 else 1.0
        self.now_ns += round(100e6 * max(speed, 0.5))


@pytest.mark.parametrize("part", range(4))
def test_equal_code_is_never_called_faster_or_slower(part: int) -> None:
    verdicts = []
    for seed in range(part * COMPARISONS // 4, (part + 1) * COMPARISONS // 4):
        clock = NoisyClock(seed)
        specs = [BenchSpec(name=name, warmup=1) for name in "ab"]
        records = measure_interleaved([clock.body, clock.body], specs, clock_ns=clock)
        verdicts.append(compare(*map(summarise, records))[0].verdict)
    assert len(verdicts) == COMPARISONS // 4
    assert set(verdicts) <= {"same", "unclear"}
