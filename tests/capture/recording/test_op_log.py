"""What each operator reads and writes, noted while a block runs: needs that are true, of views and backward too."""

import gc
import subprocess
import sys
import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="there are no operators without torch")

import perfmagic  # noqa: E402 - after the skip
from perfmagic.analysis.graph.graph import MEMORY  # noqa: E402
from perfmagic.capture.recording import op_log  # noqa: E402
from perfmagic.capture.recording.op_log import OpLog  # noqa: E402
from perfmagic.results import GraphResult  # noqa: E402
from tests.capture.recording.sim_writers import PROGRAMS, known_pairs, noted_writers, shape_only  # noqa: E402

pytestmark = pytest.mark.slow
DEVICES = ["cpu", "sim"]


@pytest.fixture(autouse=True)
def _sim() -> None:
    perfmagic.devices(2)


def pairs(graph: GraphResult, kind: str = "") -> set[tuple[str, str]]:
    """Which operator needs which, by name."""
    return {(edge.needs_name, edge.of_name) for edge in graph.edges() if not kind or edge.kind == kind}


@pytest.mark.parametrize("device", DEVICES)
def test_a_sum_of_a_product_needs_the_product(device: str) -> None:
    graph = perfmagic.graph(lambda: torch.ones(1, 2, device=device) * torch.zeros(1, 2, device=device) + 2)
    assert [node.name for node in graph.nodes()] == ["ones", "zeros", "mul", "add"]
    assert [(edge.needs, edge.of, edge.kind) for edge in graph.edges()] == [
        (0, 2, "data"),
        (1, 2, "data"),
        (2, 3, "data"),
    ]
    assert [node.lane for node in graph.nodes()] == [device] * 4
    assert [node.n_ops for node in graph.nodes()] == [1 if device == "sim" else 0] * 4


@pytest.mark.parametrize("device", DEVICES)
def test_views_of_other_rows_need_nothing_and_those_of_one_row_do(device: str) -> None:
    a = torch.zeros(4, 4, device=device)

    def rows() -> None:
        a[0].add_(1)
        a[1].mul_(2)
        a[0].exp_()
        a[:2].sum()

    graph = perfmagic.graph(rows)
    assert [node.name for node in graph.nodes()] == ["add_", "mul_", "exp_", "sum"]
    assert {(edge.needs, edge.of) for edge in graph.edges() if edge.kind == "data"} == {(0, 2), (1, 3), (2, 3)}


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_overwritten_as_a_whole_is_needed_as_memory_alone(device: str) -> None:
    a, b = torch.zeros(4, device=device), torch.ones(4, device=device)

    def again() -> None:
        a.add(1)
        a.copy_(b)
        a.sum()

    graph = perfmagic.graph(again)
    assert [(edge.needs, edge.of, edge.kind) for edge in graph.edges()] == [(0, 1, "memory"), (1, 2, "data")]


@pytest.mark.parametrize("device", DEVICES)
def test_views_and_allocations_are_no_nodes(device: str) -> None:
    a = torch.zeros(4, 6, device=device)

    def views() -> None:
        torch.empty(3, device=device)
        b = a.t().reshape(-1)[3:9].view(2, 3)
        c, d = b.chunk(2)
        c + d.detach()

    assert [node.name for node in perfmagic.graph(views).nodes()] == ["clone", "add"]


@pytest.mark.parametrize("device", DEVICES)
def test_a_shape_alone_is_no_need(device: str) -> None:
    a = torch.zeros(4, device=device)

    def shapes() -> None:
        b = a + 1
        torch.ones_like(b)
        b.new_zeros(3)

    assert len(perfmagic.graph(shapes).nodes()) >= 3
    assert pairs(perfmagic.graph(shapes)) <= {("new_zeros", "fill_"), ("new_zeros", "zero_")}


@pytest.mark.parametrize("device", DEVICES)
def test_memory_that_is_given_again_makes_no_need(device: str) -> None:
    def loop() -> None:
        for _ in range(20):
            torch.ones(256, device=device)  # of one address each time
            gc.collect(0)

    assert len(perfmagic.graph(loop).edges()) == 0


def test_memory_of_others_that_lies_where_a_tensor_was_makes_no_need() -> None:
    numpy = pytest.importorskip("numpy")

    def loop() -> None:
        for _ in range(20):
            torch.from_numpy(numpy.ones(256)).add_(1)  # torch does not see its allocation

    assert len(perfmagic.graph(loop).edges()) == 0


@pytest.mark.parametrize("device", DEVICES)
def test_a_backward_pass_needs_what_its_forward_saved(device: str) -> None:
    w = torch.randn(3, 3, device=device, requires_grad=True)
    x = torch.randn(2, 3, device=device)

    def step() -> None:
        y = (x @ w).relu()
        y.sum().backward()
        with torch.no_grad():
            w.sub_(w.grad, alpha=0.1)

    step()
    w.grad = None
    graph = perfmagic.graph(step)
    names = [node.name for node in graph.nodes()]
    assert ("relu", "threshold_backward") in pairs(graph)
    assert ("threshold_backward", "mm") in pairs(graph)
    assert ("mm", "sub_") in pairs(graph)  # not longest(): on a busy machine any op may take longer than all others
    assert names.count("mm") == 2


def test_needs_cross_devices() -> None:
    def there_and_back() -> None:
        x = torch.ones(4, 4, device="sim:0")
        y = x.to("sim:1") * 2
        (y.to("sim:0") + x).cpu()

    graph = perfmagic.graph(there_and_back)
    lanes = [(node.name, node.lane) for node in graph.nodes()]
    assert lanes == [
        ("ones", "sim:0"),
        ("copy", "sim:0 → sim:1"),
        ("mul", "sim:1"),
        ("copy", "sim:1 → sim:0"),
        ("add", "sim:0"),
        ("copy", "sim:0 → cpu"),
    ]
    assert {(edge.needs, edge.of) for edge in graph.edges()} == {(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (4, 5)}


def test_an_item_reads_what_it_is_of() -> None:
    graph = perfmagic.graph(lambda: torch.ones(3, device="sim").sum().item())
    assert [(node.name, node.lane) for node in graph.nodes()][-1] == (".item()", "sim → cpu")
    assert ("sum", ".item()") in pairs(graph)


def test_needs_are_those_of_the_simulated_devices_own_log() -> None:
    """It knows the last writer of each buffer that an op uses. A shape-only read is no need here, and is one there."""
    true, graph, said = set(), set(), set()
    with noted_writers() as writers:
        for name, make in PROGRAMS.items():
            program = make()
            program()
            writers.clear()
            result = perfmagic.graph(program)
            true |= {(name, *pair) for pair in known_pairs(result, writers) if not shape_only(result, pair[1])}
            graph |= {(name, edge.needs, edge.of) for edge in result.edges()}
            said |= {(name, edge.needs, edge.of) for edge in result.edges() if edge.kind != MEMORY}
            assert _against_time(result) == []
    assert len(true) > 100
    assert len(true & graph) >= 0.97 * len(true)
    assert len(said - true) <= 0.1 * len(said)  # that log keeps the last writer of a buffer alone


def _against_time(result: GraphResult) -> list[tuple[str, str]]:
    """Needs of data whose writer had not ended when the reader began."""
    nodes = result.nodes()
    return [
        (edge.needs_name, edge.of_name)
        for edge in result.edges()
        if nodes[edge.needs].n_ops and nodes[edge.of].n_ops and nodes[edge.needs].end_ns > nodes[edge.of].start_ns
    ]


def test_operations_between_ranks_write_what_they_are_given(tmp_path: Any) -> None:
    dist = torch.distributed
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        x = torch.ones(4)

        def reduce() -> None:
            x.add_(1)
            dist.all_reduce(x)
            x.mul(2)

        graph = perfmagic.graph(reduce)
    finally:
        dist.destroy_process_group()
    assert {("add_", "allreduce_"), ("allreduce_", "mul")} <= pairs(graph, "data")


def test_sparse_tensors_are_their_indices_and_values() -> None:
    def product() -> None:
        a = torch.eye(3).to_sparse()
        torch.sparse.mm(a, torch.ones(3, 3))

    names = [node.name for node in perfmagic.graph(product).nodes()]
    assert ("eye", names[1]) in pairs(perfmagic.graph(product))
    assert (names[1], "sparse_addmm") in pairs(perfmagic.graph(product))


def test_tensors_on_a_mesh_are_their_local_ones(tmp_path: Any) -> None:
    mesh_of = pytest.importorskip("torch.distributed.tensor")
    dist = torch.distributed
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        mesh = mesh_of.init_device_mesh("cpu", (1,))
        whole = mesh_of.distribute_tensor(torch.ones(4, 4), mesh, [mesh_of.Replicate()])

        def product() -> None:
            more = whole + 1
            (more @ more).sum()

        graph = perfmagic.graph(product)
    finally:
        dist.destroy_process_group()
    assert pairs(graph) == {("add", "mm"), ("mm", "sum")}


def test_no_tensor_is_kept_and_no_memory() -> None:
    log = OpLog()
    log.acquire()
    try:
        x = torch.ones(1000)
        storage = x.untyped_storage()
        gone = [weakref.ref(x), weakref.ref(storage)]
        y = x + 1
        del x, storage
        assert [ref() for ref in gone] == [None, None]
        del y
    finally:
        log.give_back()
    assert [op.name for op in log.read(0).ops] == ["ones", "add"]


def test_a_mode_that_the_code_leaves_behind_stays_and_ours_goes() -> None:
    from torch.utils import _python_dispatch as modes

    class Mine(modes.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    mode = Mine()
    before = modes._get_current_dispatch_mode_stack()
    try:
        perfmagic.graph(mode.__enter__)
        assert modes._get_current_dispatch_mode_stack() == [*before, mode]
    finally:
        mode.__exit__(None, None, None)
    assert modes._get_current_dispatch_mode_stack() == before


def test_an_error_of_an_operator_is_the_users_own() -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        perfmagic.graph(lambda: torch.ones(2, 3) @ torch.ones(2, 3))
    graph = perfmagic.last()
    assert isinstance(graph, GraphResult)
    assert [node.name for node in graph.nodes()] == ["ones", "ones"]
    assert "mat1 and mat2" in graph.trace.meta.failed


def test_operators_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_log, "LIMIT_OPS", 3)
    graph = perfmagic.graph(lambda: [torch.ones(2) for _ in range(5)])
    assert len(graph.nodes()) == 3
    assert "2 further operators came after the limit" in graph.text()


def test_what_another_thread_launches_is_left_out_and_reported() -> None:
    import threading

    def both() -> None:
        thread = threading.Thread(target=lambda: torch.ones(2, device="sim") + 1)
        thread.start()
        thread.join()
        torch.zeros(2, device="sim")

    graph = perfmagic.graph(both)
    assert [node.name for node in graph.nodes()] == ["zeros"]
    assert "2 device ops came from no operator that was seen" in graph.text()


def test_compiling_is_not_imported() -> None:
    code = (
        "import sys, torch, perfmagic\n"
        "perfmagic.graph(lambda: torch.ones(2) + 1)\n"
        "print([name for name in sys.modules if name.startswith(('torch._dynamo', 'torch._inductor'))])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.stdout.strip() == "[]", ran.stderr


def _padded() -> torch.Tensor:
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    net = torch.nn.TransformerEncoder(layer, 2).eval()
    padding = torch.tensor([[False] * 3 + [True] * 2, [False] * 5])
    with torch.inference_mode():
        return net(torch.ones(2, 5, 16), src_key_padding_mask=padding)


def _nested() -> torch.Tensor:
    both = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])
    return (both * 2).to_padded_tensor(0.0)


@pytest.mark.filterwarnings("ignore")
def test_tensors_without_a_shape_are_noted_by_all_of_their_memory() -> None:
    perfmagic.graph(_padded)
    graph = perfmagic.graph(_nested)
    assert {("ones", "nested_tensor_from_tensor_list"), ("mul", "to_padded_tensor")} <= {
        (a.strip("_"), b.strip("_")) for a, b in pairs(graph)
    }
    assert graph.seen.unread == 0


class WithoutStorage(torch.Tensor):
    """Nobody learns which memory it has."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    def untyped_storage(self) -> Any:
        raise TypeError("no storage")


def test_a_tensor_that_has_no_storage_breaks_no_cell_and_is_counted() -> None:
    x = torch.ones(3).as_subclass(WithoutStorage)
    graph = perfmagic.graph(lambda: x + 1)
    assert graph.seen.unread == 1
    assert "1 operator used tensors of unknown memory" in " ".join(graph.text().split())


def test_a_stream_that_had_to_wait_is_named_with_the_event_it_waited_for() -> None:
    perfmagic.device("sim", pace="matmul=100ms")
    x, y = torch.ones(8, 8, device="sim"), torch.ones(8, 8, device="sim")
    side = torch.sim.Stream()

    def waits_for_nothing() -> None:
        x @ x
        side.wait_stream(torch.sim.current_stream())
        with torch.sim.stream(side):
            y @ y

    try:
        graph = perfmagic.graph(waits_for_nothing)
    finally:
        perfmagic.device("sim", pace="")
    (late,) = graph.late()
    assert late.because.startswith("it was queued in time, and its stream was told to wait for `mm` on line ")


def test_a_graph_of_the_cpu_alone_leaves_the_profiler_to_others() -> None:
    x = torch.ones(4)
    with torch.autograd.profiler.profile() as other:
        graph = perfmagic.graph(lambda: x + 1, device="cpu")
    assert [node.name for node in graph.nodes()] == ["add"]
    assert "aten::add" in {event.name for event in other.function_events}
