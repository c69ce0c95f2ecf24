"""Paces: times, rates, links by name. The least time that is computed is tested, never the time that is taken."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from perfmagic.sim import pace
from perfmagic.sim.pace import PaceLog, describe_in_turn

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

from perfmagic import sim  # noqa: E402 - after the skip
from perfmagic.base.errors import OptionError  # noqa: E402
from perfmagic.capture.devices import backends  # noqa: E402
from perfmagic.sim import dispatch  # noqa: E402
from perfmagic.sim.pace import LINKS  # noqa: E402
from perfmagic.trace.columns import OpKind  # noqa: E402

Seen = list[tuple[str, float]]


@pytest.fixture
def least(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Of each op that is launched its name and the least time it was given."""
    seen: Seen = []
    queue_op = dispatch.queue_op

    def noted(*args: object, **kwargs: object) -> object:
        job = queue_op(*args, **kwargs)  # type: ignore[arg-type]
        seen.append((job.name, job.least_s))
        return job

    monkeypatch.setattr(dispatch, "queue_op", noted)
    return seen


def test_a_product_takes_its_operations_at_the_rate_and_half_the_batch_half_the_time(least: Seen) -> None:
    layer, batch = torch.nn.Linear(64, 32, device="sim"), torch.zeros(16, 64, device="sim")
    least.clear()
    sim.set_pace("matmul=1GFLOP/s")
    layer(batch)
    layer(batch[:8])
    assert [(name, pytest.approx(s)) for name, s in least] == [
        ("addmm", 2 * 16 * 64 * 32 / 1e9),
        ("addmm", 2 * 8 * 64 * 32 / 1e9),
    ]


def test_a_convolution_and_its_backward_are_paced_by_the_same_word(least: Seen) -> None:
    layer = torch.nn.Conv2d(3, 4, 3).to("sim")
    images = torch.zeros(2, 3, 8, 8, device="sim", requires_grad=True)
    least.clear()
    sim.set_pace("convolution=1GFLOP/s")
    layer(images).sum().backward()
    once_s = 2 * 2 * 6 * 6 * 4 * 3 * 3 * 3 / 1e9
    paced = {name: s for name, s in least if s}
    assert paced == {"convolution": pytest.approx(once_s), "convolution_backward": pytest.approx(2 * once_s)}


def test_attention_is_paced_by_its_two_products(least: Seen) -> None:
    q = torch.zeros(2, 3, 8, 4, device="sim")
    least.clear()
    sim.set_pace("kernels=1GFLOP/s")
    torch.nn.functional.scaled_dot_product_attention(q, q, q)
    products = [s for name, s in least if name == "bmm"]
    assert products == [pytest.approx(2 * 2 * 3 * 8 * 8 * 4 / 1e9)] * 2
    assert sum(s for _, s in least) == pytest.approx(sum(products))


def test_a_memory_rate_counts_what_is_read_and_what_is_written(least: Seen) -> None:
    x, y = torch.zeros(1000, device="sim"), torch.zeros(1000, device="sim")
    least.clear()
    sim.set_pace("kernels=1GB/s")
    x + 1
    x.add_(y)
    x.fill_(2.0)
    torch.add(x, y, out=y)
    torch._foreach_add_([x, y], 1.0)
    x.expand(50, 1000).sum()
    x.copy_(y)
    x.zero_()
    kilobytes = [8, 12, 4, 12, 16, 4.004, 8, 4]
    assert [s for _, s in least] == [pytest.approx(kb * 1e3 / 1e9) for kb in kilobytes]


def test_a_name_goes_before_all_kernels_a_time_before_a_rate_and_of_rules_for_all_the_longest_holds() -> None:
    pace = sim.Pace.parse("matmul=1GFLOP/s, mm=2ms, kernels=3ms, kernels=1MB/s, kernels=1kFLOP/s")
    assert pace("mm", OpKind.KERNEL, 10**6, 10**9) == 0.002
    assert pace("bmm", OpKind.KERNEL, 10**6, 10**9) == 1.0
    assert pace("convolution", OpKind.KERNEL, 10**6, 10) == 1.0
    assert pace("convolution", OpKind.KERNEL, 10**6, 10**4) == 10.0
    assert pace("add", OpKind.KERNEL, 10, None) == 0.003
    assert pace("Memcpy DtoD (Device -> Device)", OpKind.MEMCPY, 10**6) == 2.0


def test_half_precision_takes_its_share_of_times_and_rates_and_bandwidths_stay(least: Seen) -> None:
    whole, half = torch.zeros(8, 8, device="sim"), torch.zeros(8, 8, device="sim", dtype=torch.float16)
    double = whole.double()
    least.clear()
    sim.set_pace("matmul=4ms, kernels=1ms, half=4x, double=0.5x")
    for x in (whole, half, half.bfloat16(), double):
        x @ x
        x.relu()
    paced = [(name, s) for name, s in least if name in ("mm", "relu")]
    expected = [4e-3, 1e-3, 1e-3, 0.25e-3, 1e-3, 0.25e-3, 8e-3, 2e-3]
    assert paced == [(("mm", "relu")[i % 2], pytest.approx(s)) for i, s in enumerate(expected)]
    pace = sim.Pace.parse("matmul=1GFLOP/s, kernels=1MB/s, half=2×")
    assert pace("mm", OpKind.KERNEL, 0, 10**9, "bfloat16") == 0.5
    assert pace("add", OpKind.KERNEL, 10**6, None, "float16") == 1.0


def test_a_product_of_halves_is_summed_in_float32_and_rounded_once() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(33, 300).half(), torch.randn(300, 17).half()
    exact = (a.float() @ b.float()).half()
    assert torch.equal((a.to("sim") @ b.to("sim")).cpu(), exact)
    layer = torch.nn.Linear(300, 17).half()
    product = layer.to("sim")(a.to("sim"))
    assert product.dtype == torch.float16
    assert torch.equal(
        product.cpu(), torch.nn.functional.linear(*(t.cpu().float() for t in (a, layer.weight, layer.bias))).half()
    )


def test_a_links_name_stands_for_its_bandwidth_and_its_latency_and_a_given_latency_goes_before_it() -> None:
    link = LINKS["nvlink4"]
    named = sim.Pace.parse("link=nvlink4, copies=pcie3")
    assert (named.link_bytes_per_s, named.link_latency_s) == (450e9, link.latency_s)
    assert named.copy_bytes_per_s == pytest.approx(15.754e9, rel=1e-4)
    assert named.link_s("all_reduce", 450e6) == pytest.approx(1e-3 + link.latency_s)
    for text in ("link=NVLink4, latency=1ms", "latency=1ms, link=nvlink4"):
        assert sim.Pace.parse(text) == sim.Pace(link_bytes_per_s=450e9, link_latency_s=1e-3)


def test_the_rate_of_copies_has_the_name_of_a_bus_and_never_of_a_network() -> None:
    assert "copies nvlink2: 150" in sim.Pace.parse("copies=nvlink2").words
    assert "ethernet" not in sim.Pace.parse("copies=125MB/s").words
    assert "link ethernet1: 125" in sim.Pace.parse("link=ethernet1").words


def test_the_page_on_the_simulated_device_lists_every_link_with_its_figures() -> None:
    page = (Path(__file__).parents[2] / "docs" / "simulated-device.md").read_text()
    rows = [row for row in page.splitlines() if row.startswith("| `") and "µs |" in row]
    listed = {}
    for row in rows:
        names, rates, latency = (cell.strip() for cell in row.split("|")[1:4])
        for name, rate in zip(names.split(", "), rates.removesuffix(" GB/s").split(", "), strict=True):
            listed[name.strip("`")] = (float(rate), float(latency.removesuffix(" µs")))
    known = {n: (pytest.approx(link.bytes_per_s / 1e9, rel=3e-3), link.latency_s * 1e6) for n, link in LINKS.items()}
    assert listed == {name: (rate, pytest.approx(latency)) for name, (rate, latency) in known.items()}


PACES = {
    "matmul=3ms, copy=12GB/s": "matmul ≥ 3 ms, copies 12 GB/s, pageable half",
    "link=1MB/s, latency=2ms, mm=5ms, kernel=1ms": "mm ≥ 5 ms, other kernels ≥ 1 ms, link 1 MB/s and 2 ms",
    "matmul=50GFLOP/s, kernels=200GB/s, half=2x, copies=pcie4, link=nvlink4": (
        "matmul 50 GFLOP/s, other kernels 200 GB/s, half 2 ×, copies pcie4: 31.5 GB/s, pageable half, "
        "link nvlink4: 450 GB/s and 3.4 µs"
    ),
}


def test_a_pace_reads_as_words_and_survives_pickling() -> None:
    for text, words in PACES.items():
        pace = sim.Pace.parse(text)
        assert pace.words.replace("\u00a0", " ") == f"paced: {words}"
        assert pickle.loads(pickle.dumps(pace)) == eval(repr(pace), {"Pace": sim.Pace}) == pace
    assert len({hash(sim.Pace.parse(text)) for text in (*PACES, "matmul=4ms", "link=1MB/s")}) == len(PACES) + 2


def test_a_device_says_its_pace() -> None:
    sim.set_pace(pace := sim.Pace(by_name={"matmul": 0.003}, copy_bytes_per_s=12e9))
    assert pace == sim.Pace.parse("matmul=3ms, copy=12GB/s")
    assert sim.devices_in_use()[0].pace_description == pace.words
    sim.set_pace(None)
    assert sim.devices_in_use()[0].pace_description == ""


def test_a_pace_gives_each_op_its_least_time() -> None:
    pace = sim.Pace(kernel_s=0.001, by_name={"matmul": 0.003, "mm": 0.004}, copy_bytes_per_s=1e6)
    assert pace("bmm", OpKind.KERNEL, -1) == 0.003
    assert pace("mm", OpKind.KERNEL, -1) == 0.004
    assert pace("add", OpKind.KERNEL, -1) == 0.001
    assert pace("Memcpy HtoD (Pinned -> Device)", OpKind.MEMCPY, 1000) == 0.001
    assert pace("Memcpy HtoD (Pageable -> Device)", OpKind.MEMCPY, 1000) == 0.002


def test_a_link_takes_its_latency_and_the_bytes_at_its_bandwidth_and_a_named_time_goes_before_it() -> None:
    pace = sim.Pace.parse("link=1MB/s, latency=2ms, broadcast=5ms, kernel=1ms")
    assert pace == sim.Pace(0.001, {"broadcast": 0.005}, link_bytes_per_s=1e6, link_latency_s=0.002)
    assert pace.link_s("all_reduce", 3000) == pytest.approx(0.005)
    assert pace.link_s("broadcast", 3000) == 0.005
    assert sim.Pace(kernel_s=0.001).link_s("all_reduce", 3000) == 0.0  # a collective is no kernel of the device's own


UNREADABLE = ("matmul", "matmul=3", "copy=3ms", "x=1.2.3ms", "kernel=-1ms", "link=3ms", "latency=1GB/s", "link=0GB/s")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *((text, "pace") for text in UNREADABLE),
        ("add=5GFLOP/s", "the operations of 'add' are not counted"),
        ("matmul=200GB/s", "'matmul' takes a time or FLOP/s"),
        ("link=nvlink9", "no link is named 'nvlink9'"),
        ("matmul=pcie4", "'matmul' takes a time or FLOP/s"),
        ("kernels=pcie4", "'kernels' takes a time or a bandwidth"),
        ("copies=3GFLOP/s", "'copies' takes a bandwidth"),
        ("latency=pcie3", "'latency' takes a time"),
        ("link=1GB/s, link=pcie3", "it is given twice"),
        ("kernel=1ms, kernels=2ms", "it is given twice"),
        ("matmul=0GFLOP/s", "above 0 FLOP/s"),
        ("float8=2x", "'float8' is not a type with its own speed"),
        ("half=0x", "above 0"),
        ("half=2x, half=3x", "it is given twice"),
        ("kernels=0GB/s", "above 0 B/s"),
        ("matmul=5GFLOPS", "cannot read 'matmul=5GFLOPS'"),
    ],
)
def test_a_rate_or_a_link_that_means_nothing_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(OptionError, match="pace") as raised:
        sim.Pace.parse(text)
    assert said in str(raised.value)
    assert raised.value.hint


@pytest.mark.parametrize("own", ["cuda:1", "sim:0"])
def test_a_rank_that_gives_a_pace_keeps_its_own_device(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "_of_this_rank", [torch.device(own)])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # also where a machine has fewer GPUs than ranks
    assert backends.device(pace="link=nvlink4") == torch.device(own)
    assert (sim.current_pace() == sim.Pace.parse("link=nvlink4")) == own.startswith("sim")


def test_only_paces_at_which_something_was_launched_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pace is a until 10, b until 20, c until 30, then d."""
    log, times = PaceLog(), iter((10, 20, 30))
    monkeypatch.setattr(pace, "now_ns", lambda: next(times))
    for before in "abc":
        log.changed(before)

    def used(*launched: int) -> list[str]:
        return log.used(np.array(launched, np.int64), "d")

    assert used(31, 40) == ["d"]
    assert used(5, 40) == ["a", "d"]
    assert used(25, 15) == ["b", "c"]
    assert used(1, 11, 21, 31) == ["a", "b", "c", "d"]
    assert used() == ["d"]


def test_a_pace_set_again_is_one_and_none_is_called_unpaced() -> None:
    log = PaceLog()
    log.changed("paced: mm")
    assert log.used(np.array([1, 2**62]), "paced: mm") == ["paced: mm"]
    assert describe_in_turn(["paced: mm"]) == "paced: mm"
    assert describe_in_turn([""]) == ""
    assert describe_in_turn(["", "paced: mm ≥ 3 ms"]) == "unpaced; then mm ≥ 3 ms"
    assert describe_in_turn(["paced: a", "paced: b", "paced: c"]) == "paced: a; then c, after 1 other"
    assert describe_in_turn(["paced: a", "paced: b", "", "paced: c"]) == "paced: a; then c, after 2 others"


def test_ranks_of_several_machines_share_the_network_and_not_the_link() -> None:
    paced = pace.Pace.parse("link=nvlink4, network=ethernet100, machine=4ranks")
    network = "network ethernet100: 12.5 GB/s and 9.6 µs between machines of 4 ranks"
    assert paced.words.replace("\N{NO-BREAK SPACE}", " ") == f"paced: link nvlink4: 450 GB/s and 3.4 µs, {network}"
    assert pace.Pace.from_json(paced.to_json()) == pickle.loads(pickle.dumps(paced)) == paced
    assert paced.between((4, 7)) is paced
    assert paced.between((3, 4)).link_s("send", 12.5e9) == pytest.approx(1 + 9.6e-6)


@pytest.mark.parametrize("text", ["machine=2ranks", "network=1GB/s", "network=1GB/s, machine=1.5ranks", "machine=2s"])
def test_machines_need_a_network_and_a_whole_number_of_ranks(text: str) -> None:
    with pytest.raises(OptionError, match="machine"):
        pace.Pace.parse(text)
