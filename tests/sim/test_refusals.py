"""What no kernel of the simulated device runs raises an error: no result is handed out that was not computed."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

from perfmagic.base.errors import DeviceError  # noqa: E402
from perfmagic.sim.groups import foreign  # noqa: E402 - after the skip

D = "sim"


def _x() -> Any:
    return torch.arange(6.0, device=D).view(2, 3)


REFUSED: dict[str, tuple[str, Callable[[], Any]]] = {
    "its address": ("no address", lambda: _x().data_ptr()),
    "the address of its storage": ("no address", lambda: _x().untyped_storage().data_ptr()),
    "a copy of its storage": ("no address", lambda: _x().untyped_storage().clone()),
    "a typed storage": ("no address", lambda: _x().storage()),
    "shared memory": ("no address", lambda: _x().share_memory_()),
    "dlpack": ("no address", lambda: _x().__dlpack__()),
    "set_ of a tensor": ("no address", lambda: _x().set_(_x())),
    "set_ on the host": ("no address", lambda: torch.empty(0).set_(_x())),
    "resize_ to more": ("cannot enlarge", lambda: _x().resize_(4, 4)),
    "to_sparse": ("not sparse_coo", lambda: _x().to_sparse()),
    "to_sparse_csr": ("not sparse_csr", lambda: _x().to_sparse_csr()),
    "a sparse tensor made there": (
        "not sparse",
        lambda: torch.sparse_coo_tensor(torch.zeros(1, 1).long(), torch.ones(1), (2,), device=D),
    ),
    "a sparse tensor moved there": ("not sparse", lambda: torch.eye(3).to_sparse().to(D)),
    "a sparse gradient": (
        "not sparse",
        lambda: torch.nn.Embedding(4, 2, sparse=True).to(D)(torch.tensor([1], device=D)).sum().backward(),
    ),
    "a copy from a sparse tensor": ("not sparse", lambda: _x().copy_(torch.eye(3)[:2].to_sparse())),
    "quantize": ("not quantized", lambda: torch.quantize_per_tensor(_x(), 0.1, 0, torch.qint8)),
    "a quantized tensor moved there": (
        "not quantized",
        lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8).to(D),
    ),
    "a nested tensor": ("not nested", lambda: torch.nested.as_nested_tensor([_x()[0], _x()[1, :2]])),
    "a jagged tensor": ("not nested", lambda: torch.nested.nested_tensor([_x()[0], _x()[1, :2]], layout=torch.jagged)),
    "mkldnn": ("not _mkldnn", lambda: _x().to_mkldnn()),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_meaning_there_raises_a_device_error(what: str) -> None:
    message, use = REFUSED[what]
    with pytest.raises(DeviceError, match=message) as refused:
        use()
    assert refused.value.hint


MIXES: dict[str, Callable[[], Any]] = {
    "a number written on the host": lambda: torch.sum(_x(), (0, 1), out=torch.tensor(7.0)),
    "a mask of the device on the host": lambda: torch.zeros(3)[torch.tensor([True, False, True], device=D)],
    "indices of the device on the host": lambda: torch.arange(3)[torch.tensor([1], device=D)],
    "values of the device set on the host": lambda: torch.zeros(3).index_put_((torch.tensor([1]),), _x()[0, :1]),
    "one value of the device set by a mask on the host": lambda: torch.zeros(3).__setitem__(
        torch.zeros(3) == 0, _x().sum()
    ),
    "values of the host set there": lambda: _x().__setitem__(_x() > 3, torch.tensor([1.0, 2.0])),
    "one element of the host": lambda: _x() * torch.tensor([2.0]),
    "an index of the host": lambda: _x().index_select(0, torch.tensor(0)),
    "a stack with the host": lambda: torch.stack([_x().sum(), torch.tensor(1.0)]),
    "out= on the host": lambda: torch.add(_x(), 1, out=torch.empty(2, 3)),
    "a list on the host": lambda: torch._foreach_add_([torch.tensor(1.0), _x()], 1),
}


@pytest.mark.parametrize("what", MIXES)
def test_host_and_device_mix_no_further_than_on_cuda(what: str) -> None:
    with pytest.raises(RuntimeError, match="same device, but found sim:0 and cpu"):
        MIXES[what]()


def test_one_number_of_the_host_is_taken_by_elementwise_operators() -> None:
    two = torch.tensor(2.0)
    assert (_x() * two).tolist() == (two * _x()).tolist() == [[0, 2, 4], [6, 8, 10]]
    assert torch.where(_x() > 3, _x(), two).tolist() == [[2, 2, 2], [2, 4, 5]]
    assert _x().clone().fill_(two).sum().item() == 12
    changed = _x()
    changed[0] = two
    changed[changed > 3] = two
    assert changed.tolist() == [[2, 2, 2], [3, 2, 2]]
    assert _x()[torch.tensor([1])].tolist() == [[3, 4, 5]]


def test_a_view_beyond_the_memory_is_refused() -> None:
    far, far_in_place = (lambda: _x().as_strided((20,), (1,))), (lambda: _x().as_strided_((7,), (1,)))
    for view in (far, far_in_place, far, far_in_place):  # the second time from what is remembered of the first
        with pytest.raises(RuntimeError, match="24"):
            view()
    assert _x().as_strided((2, 2), (1, 1)).tolist() == [[0, 1], [1, 2]]


@pytest.mark.filterwarnings("ignore")
def test_an_op_in_place_keeps_the_shape_of_what_it_works_on() -> None:
    with pytest.raises(RuntimeError, match=r"shape \[2, 3\] does not fit into \[\]"):
        torch.tensor(1.0, device=D).addr_(torch.ones(2, device=D), torch.ones(3, device=D))


def test_out_tensors_hold_what_the_result_holds() -> None:
    rank, image = torch.zeros((), dtype=torch.int64, device=D), torch.zeros(4, 2, device=D)[:, 0]
    torch.linalg.matrix_rank(torch.eye(3, device=D), out=rank)
    weight = torch.arange(8.0, device=D).view(4, 2)
    torch._C._nn.linear(torch.arange(2.0, device=D), weight, torch.ones(4, device=D), out=image)
    indices = torch.empty(0, dtype=torch.int64, device=D)
    torch.nonzero(_x()[0], out=indices)
    assert (rank.item(), image.tolist(), indices.tolist()) == (3, [2, 4, 6, 8], [[1], [2]])


@pytest.mark.filterwarnings("ignore")
def test_an_out_tensor_of_another_shape_stays_in_its_memory_or_is_refused() -> None:
    for device in ("cpu", D):
        base = torch.zeros(6, device=device)
        part = base[1:5]
        torch.add(torch.ones(2, device=device), 1, out=part)
        assert (part.tolist(), base.tolist()) == ([2, 2], [0, 2, 2, 0, 0, 0])
    with pytest.raises(DeviceError, match=r"cannot enlarge out= from shape \[1\] to \[2\]"):
        torch.add(torch.ones(2, device=D), 1, out=torch.zeros(1, device=D))


def test_lazy_conjugates_say_so_and_give_the_values_of_the_cpu() -> None:
    for device in ("cpu", D):
        z = torch.tensor([1 + 2j, 3 - 1j], device=device)
        assert z.conj().is_conj()
        assert z.conj().imag.tolist() == [-2, 1]
        assert torch.view_as_real(z.conj().resolve_conj()).tolist() == [[1, -2], [3, 1]]
        z.conj().mul_(1j)
        assert z.tolist() == [2 - 1j, -1 - 3j]
    x = torch.ones(5, device=D, requires_grad=True)
    torch.autograd.grad(torch.fft.hfft(x).sum(), x)


def test_inference_mode_gives_the_values_and_aliases_of_the_cpu() -> None:
    seen = {}
    for device in ("cpu", D):
        x = torch.arange(6.0).view(2, 3).to(device)
        layer = torch.nn.Linear(3, 2).to(device)
        torch.nn.init.constant_(layer.weight, 2.0)
        torch.nn.init.constant_(layer.bias, 1.0)
        with torch.inference_mode():
            x.reshape(-1).add_(1)
            x.contiguous().mul_(2)
            made = layer(x)
            made.flatten().add_(1)
        seen[device] = x.tolist(), made.tolist(), made.is_inference(), x.view(-1).is_inference()
    assert seen["cpu"] == seen[D]


def test_numbers_on_the_device_make_a_tensor_on_the_host() -> None:
    assert torch.tensor([_x().sum(), _x()[0, 1]]).tolist() == [15, 1]


def test_a_storage_says_its_size_and_its_device() -> None:
    storage = _x()[0].untyped_storage()
    assert (storage.nbytes(), len(storage), str(storage.device)) == (24, 24, "sim:0")
    assert not hasattr(storage, "_repr_html_")


@pytest.fixture
def operator() -> Iterator[Callable[..., Any]]:
    """operator(schema, key=function) defines an operator with kernels for dispatch keys, for one test."""
    library = torch.library.Library("perfmagic_test", "FRAGMENT")

    def define(schema: str, **kernels: Callable[..., Any]) -> Any:
        library.define(schema)
        name = schema.split("(", maxsplit=1)[0]
        for key, kernel in kernels.items():
            library.impl(name, kernel, key)
        return getattr(torch.ops.perfmagic_test, name)

    yield define
    library._destroy()


def test_an_operator_with_kernels_for_other_devices_only_is_refused(operator: Callable[..., Any]) -> None:
    # what it declares is not so: it changes its argument
    lies = operator("lies(Tensor a) -> Tensor", CPU=lambda a: a.add_(1).clone(), Meta=torch.empty_like)
    x = _x()
    with pytest.raises(DeviceError, match="perfmagic_test::lies has no kernel for the simulated device"):
        lies(x)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_an_operator_for_every_device_or_for_this_one_is_given_its_tensors(operator: Callable[..., Any]) -> None:
    given: list[Any] = []

    def twice(a: Any) -> Any:
        given.append(a)
        return a * 2

    for number, key in enumerate(("PrivateUse1", "CompositeExplicitAutograd", "CompositeImplicitAutograd")):
        run = operator(f"twice{number}(Tensor a) -> Tensor", **{key: twice})
        assert run(_x()).tolist() == [[0, 2, 4], [6, 8, 10]]
        with torch.inference_mode():
            assert run(_x()).tolist() == [[0, 2, 4], [6, 8, 10]]
    assert {t.device.type for t in given} == {"sim"}


def test_an_operator_that_needs_the_host_gets_an_error(operator: Callable[..., Any]) -> None:
    through_numpy = operator(
        "numpy(Tensor a) -> Tensor", CompositeExplicitAutograd=lambda a: torch.from_numpy(a.numpy())
    )
    with pytest.raises(TypeError, match=r"Tensor\.cpu\(\)"):
        through_numpy(_x())


def test_a_handler_runs_the_operators_of_its_namespace(operator: Callable[..., Any]) -> None:
    added = operator("added(Tensor a, int n) -> Tensor", CPU=lambda a, n: a + n)
    taken: list[Any] = []

    def take(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        taken.append((func.name(), kwargs))
        return args[0] + args[1]

    foreign.set_handler("perfmagic_test", take)
    try:
        assert added(_x(), 1).tolist() == [[1, 2, 3], [4, 5, 6]]
    finally:
        foreign.set_handler("perfmagic_test", None)
    assert taken == [("perfmagic_test::added", {})]
    with pytest.raises(DeviceError, match=re.escape("perfmagic_test::added has no kernel")):
        added(_x(), 1)
