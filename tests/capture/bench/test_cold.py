"""Cold caches: which are overwritten, and where nothing can make them cold."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import perfmagic
from perfmagic.base.errors import OptionError
from perfmagic.base.kinds import HOST_MEASURED, VIRTUAL_CLOCK
from perfmagic.capture.bench.device_use import CudaCache, HostCaches, host_cache_bytes, refuse_without_caches
from perfmagic.capture.same_work.arguments import Arguments
from perfmagic.trace.model import DeviceInfo

pytestmark = pytest.mark.slow
MB = 2**20


def fake_torch(l2_bytes: int, hip: str | None = None) -> Any:
    """What CudaCache asks of torch; buffers are numpy's, with the names of torch's methods."""

    class Buffer(np.ndarray):
        def numel(self) -> int:
            return self.size

        def zero_(self) -> None:
            self.fill(0)

    return SimpleNamespace(
        cuda=SimpleNamespace(get_device_properties=lambda _: SimpleNamespace(L2_cache_size=l2_bytes)),
        version=SimpleNamespace(hip=hip),
        uint8=np.uint8,
        empty=lambda n, dtype, device: np.ones(n, dtype).view(Buffer),
    )


def test_the_caches_of_every_gpu_in_use_are_overwritten() -> None:
    caches = CudaCache(fake_torch(MB), (0, 2))
    assert caches.size_bytes == 2 * MB
    caches.overwrite()
    assert [int(buffer.sum()) for buffer in caches._buffers] == [0, 0]


def test_the_infinity_cache_of_amd_counts_too() -> None:
    assert CudaCache(fake_torch(4 * MB, hip="6.2"), (0,)).size_bytes == 512 * MB


@pytest.mark.parametrize(
    ("kind", "pace", "why"),
    [
        ("sim", VIRTUAL_CLOCK, "on a virtual clock times are computed, and no model of them has caches"),
        ("mps", "", "how large the caches of mps are is not known"),
    ],
)
def test_caches_that_nothing_makes_cold_are_refused(kind: str, pace: str, why: str) -> None:
    with pytest.raises(OptionError, match=f"--cold: {why}"):
        refuse_without_caches((DeviceInfo(0, kind, kind, pace),), "--cold")


def test_what_has_caches_of_this_machine_is_not_refused() -> None:
    paces = ("sim", ""), ("sim", f"{VIRTUAL_CLOCK}, {HOST_MEASURED}"), ("cuda", ""), ("rocm", "")
    refuse_without_caches([DeviceInfo(0, kind, kind, pace) for kind, pace in paces], "--cold")


def test_a_sum_that_fits_the_caches_takes_longer_when_they_are_cold() -> None:
    x = np.ones(min(host_cache_bytes(), 8 * MB) // 16)
    few = {"samples": 15, "calls": 1, "warmup": 3}
    warm, cold = (perfmagic.bench(x.max, cold=cold, **few) for cold in (False, True))
    assert cold.returns_s > 1.1 * warm.returns_s
    assert (warm.cold_bytes, cold.cold_of) == (0, HostCaches.name)
    assert cold.cold_bytes == 2 * host_cache_bytes()


def test_the_caches_are_overwritten_after_fresh_arguments_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(HostCaches, "overwrite", lambda _: done.append("overwritten"))
    write = Arguments.write
    monkeypatch.setattr(Arguments, "write", lambda given, **how: (write(given, **how), done.append("written")))
    seen: set[float] = set()

    def first(x: Any) -> Any:
        seen.add(float(x[0]))
        done.append("called")
        return x * 2

    def other(x: Any) -> Any:
        done.append("called")
        return x + x

    found = perfmagic.compare(first, other, inputs=[np.arange(500.0)], cold=True, samples=4, warmup=1)
    assert found.not_comparable is None
    assert all(result.cold_bytes for result in found.results)
    after_first = "".join(each[0] for each in done).partition("o")[2]
    assert after_first.count("oc") >= 2 * (4 + 1)
    assert len(seen) > 4
