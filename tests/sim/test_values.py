"""Values on the virtual clock: what is left out changes no shape, time or memory, and is never read unnoticed."""

import copy
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from itertools import compress
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

from torch import nn  # noqa: E402 - after the skip
from torch.nn import functional as F  # noqa: E402, N812 - torch's own name for it
from torch.utils.checkpoint import checkpoint  # noqa: E402

import perfmagic  # noqa: E402
from benchmarks.values import Llama, language_loss  # noqa: E402
from perfmagic import sim  # noqa: E402
from perfmagic.base.errors import DeviceError, OptionError  # noqa: E402
from perfmagic.base.kinds import OpKind  # noqa: E402
from perfmagic.sim.tensor import NoValueError  # noqa: E402
from perfmagic.sim.values.rule import LARGEST_BYTES  # noqa: E402
from tests.sim.test_zoo import OPTIMISERS, ZOO  # noqa: E402

LARGE = LARGEST_BYTES // 4 + 1  # elements of float32 that values="small" leaves out


@pytest.fixture(autouse=True)
def _virtual(_device: None) -> Iterator[None]:
    yield
    with suppress(DeviceError):
        sim.synchronize()
    sim.load(clock="real", memory_bytes=0)
    _empty_caches()


def _empty_caches() -> None:
    for device in (1, 0):
        with torch.sim.device(device):
            torch.sim.empty_cache()


def keep(values: str, item: float | None = None) -> None:
    sim.load(clock="virtual", values=values, item=item)


# What is left out takes the same ops, in the same order, at the same times, with the same memory.


def _zoo(name: str, optimiser: str = "adam") -> Callable[[], None]:
    build, shape, _ = ZOO[name]

    def run() -> None:
        net = build().to("sim")
        steps = OPTIMISERS[optimiser](net.parameters())
        x, y = torch.randn(shape, device="sim"), torch.arange(6, device="sim") % 3
        for _ in range(2):
            steps.zero_grad(set_to_none=optimiser == "adam")
            F.cross_entropy(net(x), y).backward()
            steps.step()

    return run


def _mixed_precision() -> None:
    with torch.device("sim"):
        net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.ReLU(), nn.Linear(16, 3))
    steps, scaler = torch.optim.AdamW(net.parameters(), fused=True), torch.amp.GradScaler("sim")
    x, y = torch.randn(6, 8).pin_memory(), torch.arange(6) % 3
    for _ in range(2):
        there, label = x.to("sim", non_blocking=True), y.to("sim")
        with torch.autocast("sim"):
            loss = F.cross_entropy(net[-1](checkpoint(net[:-1], there, use_reentrant=False)), label)
        scaler.scale(loss).backward()
        scaler.unscale_(steps)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0, error_if_nonfinite=True)
        scaler.step(steps)
        scaler.update()
    loss.item()


def _two_devices() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh()).to("sim")
    parts = nn.parallel.scatter(torch.randn(6, 8, device="sim"), [0, 1])  # DataParallel's steps, without its threads
    results = [twin(part) for twin, part in zip(nn.parallel.replicate(net, [0, 1]), parts, strict=True)]
    nn.parallel.gather(results, 0).sum().backward()
    (torch.ones(3, device="sim:1").to("sim:0") + 1).to("sim:1")


@cache
def _side() -> Any:
    """The same stream for all programs: each new one is one more that the host waits for."""
    return torch.sim.Stream()


def _memory_and_streams() -> None:
    a = torch.zeros(64, 64, device="sim")
    with torch.sim.stream(_side()):  # a race
        a.t().add_(1)
    _side().synchronize()
    b = torch.add(a, 1, out=torch.empty(0, device="sim"))
    c = torch.empty(0, device="sim").resize_(64, 64).copy_(b)
    b.data = c.view(32, 128)
    c[a > 0] = 2
    torch.stack((a, c))[:, ::2].contiguous().to(torch.float64).random_()
    nn.Embedding(10, 4, max_norm=1, device="sim")(torch.tensor([3, 1], device="sim")).sum().backward()
    del a
    torch.sim.empty_cache()


def _language() -> None:
    with torch.device("sim"):
        net = Llama(layers=2, width=32, heads=4, inner=48, vocabulary=50)
    language_loss(net, torch.randint(50, (2, 16)).to("sim")).backward()


PROGRAMS: dict[str, Callable[[], None]] = {
    **{name: _zoo(name) for name in ZOO},
    "sgd, gradients kept": _zoo("mlp", "sgd"),
    "one by one": _zoo("resnet", "adamw"),
    "mixed precision": _mixed_precision,
    "two devices": _two_devices,
    "memory and streams": _memory_and_streams,
    "language model": _language,
}


TABLES = ("ops", "calls", "host_ops", "waits", "host_waits", "counters", "blocks")


def recorded(program: Callable[[], None]) -> dict[str, Any]:
    """All that the log has of a program, numbers and times from its first on, and where random numbers are after it."""
    torch.manual_seed(3)
    sim.synchronize()
    _empty_caches()
    recording = sim.SimRecording(memory=True)
    recording.acquire()
    try:
        program()
        sim.synchronize()
        records = recording.read()
    finally:
        recording.give_back()
    found = {"names": records.names, "random": torch.sim.get_rng_state().tolist()}
    columns = {f"{name}.{key}": c for name in TABLES for key, c in getattr(records, name).items()}
    new = [not before for before in columns["blocks.before"]]
    columns |= {name: list(compress(c, new)) for name, c in columns.items() if name.startswith("blocks.")}
    columns["races"] = [n for race in records.races for n in race[:2]]
    first = {"ns": records.host_ops["start_ns"].min(), "correlation": records.ops["correlation"].min()}
    for name, column in columns.items():
        unit = "correlation" if name == "races" else re.split(r"[._]", name)[-1]
        if unit in ("sequence", "number", "order"):
            first[unit] = min((n for n in column if n > 0), default=0)
        least = first.get(unit, 0)
        found[name] = [n if isinstance(n, str) or n <= 0 else max(n - least, -1) for n in column]
    return found


def first_difference(a: dict[str, Any], b: dict[str, Any]) -> object:
    """The first place where two records differ."""
    assert a.keys() == b.keys()
    for name, column in a.items():
        other = b[name]
        if column != other:
            pairs = enumerate(zip(column, other, strict=False))
            return name, len(column), len(other), next(((i, x, y) for i, (x, y) in pairs if x != y), None)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_left_out_changes_neither_ops_nor_times_nor_memory(name: str) -> None:
    sim.set_pace("matmul=1GFLOP/s, kernels=20us, copies=1GB/s")
    keep("real")
    PROGRAMS[name]()  # what the first run allocates for good
    real = recorded(PROGRAMS[name])
    assert len(real["ops.start_ns"]) > 8
    for values in ("small", "none"):
        keep(values, item=0)
        assert first_difference(recorded(PROGRAMS[name]), real) is None, values


# What is computed where only small ops are.


def test_what_is_small_has_the_values_that_it_has_where_all_is_computed() -> None:
    def run() -> list[torch.Tensor]:
        torch.manual_seed(5)
        a = torch.randn(6, 4, device="sim")
        torch.randn(LARGE, device="sim")  # left out; the random numbers after it stay the same
        b = torch.dropout(a, 0.5, train=True) @ torch.randn(4, 9, device="sim")
        (torch.empty(1100, 1100, device="sim") @ torch.empty(1100, 1100, device="sim")).normal_()
        return [b.cpu(), torch.randperm(40, device="sim").cpu(), torch.rand_like(a).cpu()]

    results = []
    for values in ("real", "small"):
        keep(values)
        results.append(run())
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def has_value(t: torch.Tensor) -> bool:
    return "no value" not in repr(t)


def test_what_reads_a_missing_value_has_none_and_what_writes_all_of_it_gives_it_one() -> None:
    keep("small")
    small, large = torch.ones(3, device="sim"), torch.ones(LARGE, device="sim")
    product = torch.ones(1100, 1100, device="sim") @ torch.ones(1100, 1100, device="sim")
    assert [has_value(t) for t in (small, large, product, large[:2], product.sum())] == [True] + [False] * 4
    assert [has_value(torch.linalg.svdvals(torch.eye(n, device="sim"))) for n in (50, 1000)] == [True, False]
    part = large[:3] + small
    assert not has_value(part)
    part[0] = 4
    assert not has_value(part)
    twin = torch.sim.Stream()
    with torch.sim.stream(twin):
        assert part.fill_(2).tolist() == [2, 2, 2]
    small.add_(large[0])
    assert not has_value(small)
    assert torch.mul(part, 3, out=small).tolist() == [6, 6, 6]
    product.t().copy_(torch.full((1100, 1100), 2.0))
    assert product[5, 7].item() == 2
    large.zero_()
    large.copy_(torch.ones(LARGE))
    assert not has_value(large)
    assert not has_value(part.copy_(large[:3]))
    there = torch.zeros(3, device="sim:1")
    assert not has_value(there.copy_(part))
    assert there.copy_(torch.arange(3)).tolist() == [0, 1, 2]


def test_nothing_of_the_device_is_in_host_memory_without_values() -> None:
    keep("none")
    with torch.device("sim"):
        net = nn.Linear(1 << 20, 1 << 20)  # 4 TB
    y = net(torch.randn(8, 1 << 20).to("sim"))
    y.sum().backward()
    assert torch.sim.max_memory_allocated() > 2 * 4 << 40
    kept = [y, torch.empty(0, device="sim").resize_(4), *net.parameters(), *(p.grad for p in net.parameters())]
    assert [t._ref.buffer.base for t in kept] == [None] * 6  # type: ignore[union-attr]
    twin = copy.deepcopy(net).to(torch.bfloat16)
    assert not has_value(twin.weight)
    sim.load(memory_bytes=8 << 40)
    with pytest.raises(torch.OutOfMemoryError, match="total capacity of 8192"):
        net.zero_grad() or net(torch.empty(1 << 20, 1 << 20, device="sim"))


def test_host_tensors_keep_their_values() -> None:
    keep("none")
    with torch.device("sim"):
        assert torch.linspace(0, 1, 5, device="cpu")[-1].item() == 1
    assert torch.zeros_like(torch.ones(3, device="sim"), device="cpu").tolist() == [0, 0, 0]
    host = torch.arange(4.0)
    host.to("sim").mul_(2)
    assert host.tolist() == [0, 1, 2, 3]


# What needs a value.

READS: dict[str, Callable[[Any], Any]] = {
    "item": lambda x: x.sum().item(),
    "bool": lambda x: bool(x[0, 0]),
    "if": lambda x: 1 if x.sum() > 0 else 0,
    "float": lambda x: float(x.max()),
    "index": lambda x: range(x.sum().long()),
    "torch.tensor": lambda x: torch.tensor([x.sum()]),
    "in": lambda x: 1 in x,
    "one hot": lambda x: F.one_hot(x.long()),
    "one element": lambda x: x[:1, 0].cpu(),
}
COPIES: dict[str, Callable[[Any], Any]] = {
    "cpu": lambda x: x.cpu(),
    "to": lambda x: x.to("cpu", torch.float64),
    "numpy": lambda x: x.cpu().numpy(),
    "tolist": lambda x: x.tolist(),
    "copy_": lambda x: torch.empty(4, 5).copy_(x),
    "pinned": lambda x: x.to("cpu", non_blocking=True),
    "save": lambda x: torch.save(x, "/dev/null"),
}
SHAPES: dict[str, Callable[[Any], Any]] = {
    "nonzero": lambda x: x.nonzero(),
    "where": lambda x: torch.where(x > 0),
    "mask": lambda x: x[x > 0],
    "masked_select": lambda x: x.masked_select(x > 0),
    "unique": lambda x: x.unique(),
    "bincount": lambda x: x.long().view(-1).bincount(),
    "repeat_interleave": lambda x: x.repeat_interleave(torch.ones(4, dtype=torch.long, device="sim"), 0),
    "equal": lambda x: torch.equal(x, x),
    "allclose": lambda x: torch.allclose(x, x),
    "no shape rule": lambda x: torch.linalg.lstsq(x.double(), x.double()),
}


@pytest.mark.parametrize("name", [*READS, *COPIES, *SHAPES])
def test_what_needs_a_value_is_refused_at_its_line(name: str) -> None:
    keep("none")
    x = torch.ones(4, 5, device="sim")
    x = x.long() if name in COPIES else x
    device = 'perfmagic.device(clock="virtual", item=0.5) gives every such read'
    hint = device if name in READS else 'smaller sizes with values="real"'
    with pytest.raises(
        NoValueError, match=r"test_values.py, line \d+ .*there is no data: the result of \w+.*"
    ) as refused:
        {**READS, **COPIES, **SHAPES}[name](x)
    assert refused.value.hint is not None
    assert refused.value.hint.startswith(hint)


def test_item_answers_each_read_of_one_value_and_the_result_says_how_many() -> None:
    keep("none", item=0.5)
    x = torch.ones(4, 5, device="sim")
    with perfmagic.timeline() as timeline:
        assert x.sum().item() == 0.5
        assert [t.item() for t in (x[0, 0].double(), x[0, 0] > 0, x[0, 0].long())] == [0.5, True, 0]
        assert x[:1, 0].cpu().tolist() == [0.5]
    (note,) = (note for note in timeline.result.trace.meta.notes if note.kind == "given_values")
    assert note.words == "5 reads of values that were not computed gave item=0.5"
    assert note.numbers == {"n_reads": 5}
    for refused in (*COPIES.values(), *SHAPES.values()):
        with pytest.raises(NoValueError):
            refused(x.long())
    keep("none")
    with pytest.raises(NoValueError):
        x.sum().item()
    keep("real", item=0.5)
    with perfmagic.timeline() as timeline:
        assert torch.ones(2, device="sim").sum().item() == 2
    assert "given_values" not in {note.kind for note in timeline.result.trace.meta.notes}


def _note(timeline: Any, kind: str) -> str | None:
    return next((note.words for note in timeline.result.trace.meta.notes if note.kind == kind), None)


@pytest.mark.parametrize("copy_to_host", COPIES.values(), ids=COPIES)
def test_a_copy_to_the_host_without_values_brings_nan_takes_its_time_and_is_counted(
    copy_to_host: Callable[[Any], Any],
) -> None:
    sim.set_pace("copies=0.001GB/s")
    keep("none")
    x = torch.ones(4, 5, device="sim")
    with perfmagic.timeline() as timeline:
        found = copy_to_host(x)
    assert found is None or bool(torch.as_tensor(found).isnan().all())
    said = _note(timeline, "copies_without_values")
    assert said == "1 copy to the host brought no values: its tensor holds NaN"
    ops = timeline.result.trace.ops
    assert (ops.end_ns - ops.start_ns)[ops.kind == OpKind.MEMCPY].sum() >= 80e3


def test_a_copy_without_values_into_integers_is_refused() -> None:
    keep("none")
    host = torch.zeros(4, 5, dtype=torch.long)
    with pytest.raises(NoValueError):
        host.copy_(torch.ones(4, 5, device="sim"))
    assert not host.any()


@pytest.mark.parametrize("optimiser", [torch.optim.SGD, torch.optim.Adagrad, torch.optim.AdamW, "not fused"])
@pytest.mark.parametrize("values", ["small", "none"])
@pytest.mark.parametrize("item", [None, 0.5])
def test_a_grad_scaler_finds_no_inf_where_nothing_was_computed(optimiser: Any, values: str, item: float | None) -> None:
    keep(values, item)
    net = nn.Linear(4096, 4096, device="sim")
    fused = optimiser != "not fused"
    steps = (optimiser if fused else torch.optim.SGD)(net.parameters(), 0.1, fused=fused)
    scaler = torch.amp.GradScaler("sim", growth_interval=2)
    taken = 0

    def count(*_: object) -> None:
        nonlocal taken
        taken += 1

    steps.register_step_post_hook(count)
    with perfmagic.timeline() as timeline:
        for _ in range(2):
            scaler.scale(net(torch.ones(8, 4096, device="sim")).sum()).backward()
            scaler.unscale_(steps)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0, error_if_nonfinite=True)
            scaler.step(steps)
            scaler.update()
    assert taken == 2
    said = _note(timeline, "checks_without_values")
    assert said == "4 checks for inf and NaN had no values: they count as finite"
    assert _note(timeline, "given_values") is None
    if values == "small":
        assert scaler.get_scale() == 2**17


def test_an_inf_that_was_computed_is_still_found() -> None:
    keep("small")
    small, large = (nn.Parameter(torch.ones(n, device="sim")) for n in (3, LARGE))
    small.grad = torch.full((3,), torch.inf, device="sim")
    steps, scaler = torch.optim.SGD([small], 1.0), torch.amp.GradScaler("sim")
    scaler.scale(torch.ones(1, device="sim"))
    scaler.step(steps)
    assert small.tolist() == [1, 1, 1]
    assert not torch.isfinite(small.grad).all()
    assert torch.isfinite(large).all()


def test_whether_anything_is_inf_or_nan_is_answered_without_item() -> None:
    keep("none")
    x = torch.ones(4, 5, device="sim")
    assert torch.isfinite(x).all()
    assert not torch.isfinite(x).logical_not().any()
    assert not (torch.isnan(x) | torch.isinf(x)).any()
    assert x.isnan().any(dim=0)[0].item() is False
    assert torch.eq(x, x)[0, 0].item() is True
    finite = torch.isfinite(x)
    finite[0].logical_not_()  # a part
    written = torch.isnan(x).copy_(x > 0)
    either = torch.isnan(x) | (x > 0)
    for unknown in (x == 1, x != x + 1, x > torch.inf, either, torch.isfinite(x) * 2, finite, written):
        with pytest.raises(NoValueError):
            unknown.sum().item() if unknown.dtype != torch.bool else bool(unknown.any())


def test_printing_says_that_there_is_no_value() -> None:
    keep("none")
    x = torch.ones(2, 3, device="sim", requires_grad=True)
    assert repr(x) == "tensor(no value, shape=(2, 3), dtype=torch.float32, device='sim:0', requires_grad=True)"
    assert "no value, shape=()" in str(x.sum())
    assert f"{x.sum():.3f} {x.detach().sum()}".startswith("no value tensor(no value")
    assert "no value" in repr(nn.Parameter(x))


def test_shapes_that_do_not_fit_raise_torchs_own_errors() -> None:
    keep("none")
    x = torch.ones(4, 5, device="sim")
    for wrong, words in (
        (lambda: x @ x, "reduction dim"),
        (lambda: x.view(7), "invalid for input of size 20"),
        (lambda: x[:1].expand(4, 5).add_(1), "more than one element of the written-to tensor"),
    ):
        with pytest.raises(RuntimeError, match=words) as raised:
            wrong()
        assert not isinstance(raised.value, NoValueError)


def test_values_are_left_out_on_a_virtual_clock_only() -> None:
    for given in ({"values": "none"}, {"values": "small"}, {"item": 1}):
        with pytest.raises(DeviceError, match="on the real clock every op is computed"):
            perfmagic.device("sim", **given)
        with pytest.raises(DeviceError, match="on the real clock every op is computed"):
            perfmagic.device("sim", clock="real", **given)
        with pytest.raises(DeviceError, match="needs a simulated device"):
            perfmagic.device("cpu", **given)
    for wrong in ({"values": "all"}, {"item": "1"}, {"item": True}):
        with pytest.raises(OptionError):
            perfmagic.devices(2, "sim", clock="virtual", **wrong)
    perfmagic.device(clock="virtual", values="none")
    missing = torch.ones(3, device="sim")
    perfmagic.device(clock="real")  # computes again, and still knows what was not
    assert torch.ones(3, device="sim").sum().item() == 3
    with pytest.raises(NoValueError):
        (missing + 1).sum().item()
    assert missing.fill_(1).sum().item() == 3


def test_item_stays_with_another_gpu_until_values_are_given() -> None:
    try:
        perfmagic.device("H100", item=0.5)
        device = perfmagic.device("A100")
        large = torch.ones(LARGE, device=device)
        assert large.sum().item() == 0.5
        perfmagic.devices(2, "T4")
        assert large.sum().item() == 0.5
        perfmagic.device("A100", values="small")
        with pytest.raises(NoValueError) as refused:
            large.sum().item()
        assert str(refused.value.hint).startswith('perfmagic.device("A100 SXM4 80 GB", item=0.5) gives')
    finally:
        sim.set_pace(None)


def test_a_gpu_by_its_name_computes_what_is_small() -> None:
    device = perfmagic.device("H100")
    try:
        assert torch.ones(3, device=device).sum().item() == 3
        assert not has_value(torch.ones(LARGE, device=device))
        assert perfmagic.device("H100", values="real") == device
        assert torch.ones(LARGE, device=device).sum().item() == LARGE
    finally:
        sim.set_pace(None)
