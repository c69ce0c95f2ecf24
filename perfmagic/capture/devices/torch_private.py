"""What recording uses of torch that torch does not promise: its profiler, dispatch modes, saved tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache, wraps
from operator import attrgetter, methodcaller
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import Any, cast

import torch
from torch.utils import _device as _defaults

_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def saved_in_graph(root: Any) -> Iterator[torch.Tensor]:
    """The tensors that the nodes of a graph have saved, as they are: nothing is unpacked, so no checkpoint runs again.

    root: a grad_fn.  Uses Node._raw_saved_* and SavedTensor.data (read in 2.13.0), which leave packed ones alone;
    fallback: none.
    """
    seen, nodes = set(), [root]
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for name in _raw_names(cast("Any", type(node))):
            try:
                raw = getattr(node, name)
            except RuntimeError:  # given back by a backward pass
                continue
            for saved in raw if isinstance(raw, (tuple, list)) else (raw,):
                data = None if getattr(saved, "unpack_hook", None) is not None else getattr(saved, "data", None)
                if data is not None:
                    yield data
        nodes.extend(below for below, _ in node.next_functions)


@cache
def _raw_names(kind: Any) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith("_raw_saved_"))


def choose_group_backends(choose: Callable[[str], str]) -> None:
    """Have torch.distributed make a group by the backend that choose() gives for the one that was asked for.

    The group goes by the name that was asked for. Wraps distributed_c10d._new_process_group_helper and sets the group's
    name in its _world (read in 2.13.0). No fallback.
    """
    from torch.distributed import distributed_c10d

    c10d: Any = distributed_c10d
    make = c10d._new_process_group_helper

    @wraps(make)
    def chosen(size: int, rank: int, ranks: list[int], backend: Any, *args: Any, **kwargs: Any) -> Any:
        other = choose(str(backend))
        if other == str(backend):
            return make(size, rank, ranks, backend, *args, **kwargs)
        group, store = make(size, rank, ranks, c10d.Backend(other), *args, **kwargs)
        if store is not None:  # else this rank is no member
            c10d._world.pg_map[group] = (backend, store)
            c10d._world.pg_backend_config[group] = str(c10d.BackendConfig(backend))
        return group, store

    c10d._new_process_group_helper = chosen


def default_store() -> Any:
    """The store that ranks of the default group share. Read in 2.9 to 2.13 (_get_default_store); without it: None."""
    get = getattr(torch.distributed.distributed_c10d, "_get_default_store", None)
    return get() if get is not None else None


def profiler_enabled() -> bool:
    """Whether a torch profiler is active in this process. Read in 2.9 to 2.13; without it: assume none."""
    probe = getattr(torch.autograd, "_profiler_enabled", None)
    return bool(probe()) if probe is not None else False


def open_profile(*, cuda: bool, memory: bool = False, shapes: bool = False, all_threads: bool = True) -> Any:
    """The low-level profiler, not entered yet, with stream waits where torch knows that option.

    Memory is recorded of the thread that begins, and of those of autograd.

    Read in 2.9 to 2.13 (torch.autograd.profiler.profile and torch._C._profiler._ExperimentalConfig). Options that a
    version does not know are left out one by one.
    """
    from torch._C._profiler import _ExperimentalConfig
    from torch.autograd import profiler

    known: dict[str, Any] = {}
    # 2.13 records no memory where it records all threads: of what each allocates its own state would have to know
    threads = ("profile_all_threads",) if all_threads and not memory else ()
    # only its file is read here: without objects for Python it ends in three quarters of the time (not tried on CUDA)
    file_alone = () if cuda else ("trace_only",)
    for option in ("enable_cuda_sync_events", *threads, *file_alone):
        try:
            wanted: dict[str, Any] = {option: True}
            _ExperimentalConfig(**wanted)
            known.update(wanted)
        except TypeError:  # noqa: PERF203 - a handful of options, once a session
            continue
    return profiler.profile(
        use_kineto=True, use_device="cuda" if cuda else None, profile_memory=memory, record_shapes=shapes,
        experimental_config=_ExperimentalConfig(**known),
    )  # fmt: skip


def end_profile(profile: Any, settle: Callable[[], None]) -> bool:
    """End a low-level profile; False where it had not begun, or had ended. torch would synchronise CUDA, and so start
    it: that is left out where CUDA is still untouched.

    settle: called when nothing is recorded any more; waits until other threads have left the operators they were in.
    torch up to 2.13 takes apart what they still write into: with two threads that ran small operators beside busy
    cores, one of a few hundred ends corrupted the heap. With CUDA nothing is paused: whether records of its operators
    would still come is not known.
    Uses entered, kineto_results and use_device of torch.autograd.profiler.profile (read in 2.9 to 2.13).
    """
    if not profile.entered or profile.kineto_results is not None:
        return False
    if profile.use_device == "cuda" and not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        profile.use_device = None
    try:
        if profile.use_device is None and pause_profile():
            settle()
    finally:
        profile.__exit__(None, None, None)
    return True


def cuda_devices_in_use() -> tuple[int, ...]:
    """The CUDA devices on which this process has a context; asking makes none.

    torch._C._cuda_hasPrimaryContext, read in 2.9 to 2.13. Without it: the current device alone.
    """
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return ()
    has_context = getattr(torch._C, "_cuda_hasPrimaryContext", None)
    if has_context is None:
        return (torch.cuda.current_device(),)
    return tuple(i for i in range(torch.cuda.device_count()) if has_context(i))


def pause_profile() -> bool:
    """Have the active profiler record no more, from any thread, without ending it; False where torch cannot.

    torch._C._autograd._toggle_collection_dynamic, read in 2.9 to 2.13. It warns unless all activities are named.
    """
    toggle = getattr(torch._C._autograd, "_toggle_collection_dynamic", None)
    if toggle is None:
        return False
    from torch._C._profiler import ProfilerActivity

    toggle(False, {ProfilerActivity.CPU, ProfilerActivity.CUDA, ProfilerActivity.XPU})
    return True


class OtherProfiles:
    """A resource that calls `on_open` just before code in this process opens a profiler of its own.

    Wraps torch.autograd.profiler.profile._prepare_trace, which torch.profiler comes through as well (read in 2.9 to
    2.13). Where the name is gone, on_open is never called.
    """

    def __init__(self, on_open: Callable[[], None]) -> None:
        self._on_open = on_open
        self._prepare: Any = None
        self._announced: Any = None

    def acquire(self) -> None:
        from torch.autograd import profiler

        prepare = getattr(profiler.profile, "_prepare_trace", None)
        if prepare is None:
            return

        def announced(profile: Any) -> Any:
            self._on_open()
            return prepare(profile)

        self._prepare, self._announced = prepare, announced
        profiler.profile._prepare_trace = announced  # type: ignore[method-assign]

    def give_back(self) -> None:
        from torch.autograd import profiler

        if self._announced is not None and profiler.profile._prepare_trace is self._announced:
            profiler.profile._prepare_trace = self._prepare  # type: ignore[method-assign]
        self._announced = None


def save_profile(profile: Any, path: str) -> None:
    """Write the result of an ended low-level profile as Chrome JSON; works once. Read in 2.9 to 2.13."""
    profile.kineto_results.save(path)


def cuda_sleep_cycles(cycles: int) -> bool:
    """Occupy the current CUDA stream for a number of clock cycles; False where this torch has no sleep kernel.

    torch.cuda._sleep, read in 2.9 to 2.13. Without it the backlog is skipped and the device span says so.
    """
    sleep = getattr(torch.cuda, "_sleep", None)
    if sleep is None:
        return False
    sleep(cycles)
    return True


def compilations() -> int:
    """How many graphs torch.compile has made in this process; 0 where it has not been used.

    Uses torch._dynamo.utils.counters["stats"]["unique_graphs"] (read in 2.13.0). Fallback: 0, so nothing is said.
    """
    utils = sys.modules.get("torch._dynamo.utils")
    counters = getattr(utils, "counters", None)
    try:
        return int(counters["stats"]["unique_graphs"]) if counters is not None else 0
    except (KeyError, TypeError):
        return 0


def _make_dispatch_mode() -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class DispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
        supports_higher_order_operators = True

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            return True

    return DispatchMode


@cache
def dispatch_mode() -> Any:
    """The class to derive from for what sees every operator, in autograd's threads too.

    Of torch.utils._python_dispatch.TorchDispatchMode (there since 1.13, read in 2.13.0) it turns off what would import
    torch._dynamo at the first operator: 823 modules and 5.8 s of CPU. Compiled code stays compiled. Older versions do
    not ask; there is no fallback.
    """
    return _make_dispatch_mode()


def direct_call(operator: Any) -> Callable[..., Any]:
    """What an operator's own __call__ calls, which is in C; itself where it does more (of higher order, of scripts).

    torch._ops.OpOverload._op (there since 1.12, read in 2.13.0). Without it: the operator.
    """
    is_plain = type(operator) is torch._ops.OpOverload
    call: Callable[..., Any] = getattr(operator, "_op", operator) if is_plain else operator
    return call


def leave_dispatch_mode(mode: Any) -> None:
    """Take a mode off this thread's stack, wherever in it code of the user's has left it; nothing where it is not.

    Uses torch.utils._python_dispatch._get_current_dispatch_mode_stack, _pop_mode and _push_mode (read in 2.13.0).
    """
    from torch.utils import _python_dispatch as modes

    above = []
    stack = modes._get_current_dispatch_mode_stack()
    if not any(other is mode for other in stack):
        return
    while stack and stack[-1] is not mode:
        above.append(modes._pop_mode())
        stack.pop()
    mode.__exit__(None, None, None)
    for other in reversed(above):
        modes._push_mode(other)


# The number that all views of one storage share; it is given again when the storage has gone: see hold_number. Asked
# for each tensor of each operator, so no function of Python. Uses torch.UntypedStorage._cdata (read in 2.13.0), no
# fallback.
storage_number: Callable[[Any], int] = attrgetter("_cdata")


# Keeps the number of a storage from being given again, and none of its memory, until release_number(). Asked for each
# new storage, so no function of Python. Uses torch.UntypedStorage._weak_ref, as StorageWeakRef of
# torch.multiprocessing.reductions does (read in 2.13.0). No fallback.
hold_number: Callable[[Any], int] = methodcaller("_weak_ref")


def release_number(number: int) -> None:
    """Let a number go that hold_number() gave. Uses torch.Storage._free_weak_ref (read in 2.13.0). No fallback."""
    torch.Storage._free_weak_ref(number)  # type: ignore[attr-defined]


def inner_tensors(t: Any) -> list[Any]:
    """The tensors inside a sparse tensor, or inside one of another library's class; itself where there are none.

    Uses __tensor_flatten__ (there since 2.1, read in 2.13.0), and Tensor._indices and _values, which work before the
    tensor is coalesced.
    """
    if t.layout == torch.sparse_coo:
        return [t._indices(), t._values()]
    if t.layout in _COMPRESSED:
        return [t.values()]
    flatten = getattr(type(t), "__tensor_flatten__", None)
    if not callable(flatten):
        return [t]
    named = [getattr(t, name) for name in flatten(t)[0]]
    return [other for other in named if isinstance(other, torch.Tensor)]


def default_device() -> torch.device | None:
    """What torch.set_default_device() has set, None for nothing.

    Uses torch._GLOBAL_DEVICE_CONTEXT (read in 2.13.0); fallback: nothing.
    """
    context = getattr(getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None), "device_context", None)
    return getattr(context, "device", None)


def default_device_for(func: Any) -> torch.device | None:
    """The device on which torch.set_default_device() or `with torch.device(…)` has a function make its tensors.

    Uses torch.utils._device.CURRENT_DEVICE and _device_constructors (read in 2.13.0). No fallback.
    """
    default: torch.device | None = _defaults.CURRENT_DEVICE
    return default if default is not None and func in _defaults._device_constructors() else None


def parse_to() -> Any:
    """What reads the arguments of Module.to(). Uses torch._C._nn._parse_to (read in 2.13.0). No fallback."""
    return torch._C._nn._parse_to


def in_function_mode() -> bool:
    """Whether a torch function mode sees what this thread calls.

    Uses torch.overrides._len_torch_function_stack (read in 2.13.0). No fallback.
    """
    overrides: Any = torch.overrides
    return bool(overrides._len_torch_function_stack())


def backward_entries(within: Callable[[Any], Any]) -> list[tuple[Any, str, Any]]:
    """What runs code of the user's in a backward pass, wrapped: the class, a name in it, and the new function.

    Uses torch.autograd.function.BackwardCFunction.apply, apply_boxed and torch.utils.checkpoint._CheckpointFrame
    (read in 2.13.0); what is gone is left out.
    """
    from torch.utils import checkpoint

    node: Any = torch.autograd.function.BackwardCFunction
    entries = [(node, name, within(vars(node)[name])) for name in ("apply", "apply_boxed") if name in vars(node)]
    frame: Any = getattr(checkpoint, "_CheckpointFrame", None)
    if frame is not None:
        begin = frame.__init__

        def with_function(self: Any, recompute: Any, *args: Any, **kwargs: Any) -> None:
            begin(self, within(recompute), *args, **kwargs)

        entries.append((frame, "__init__", with_function))
    return entries


def leave_mode(mode: Any) -> None:
    """Take a torch function mode out of this thread's stack, wherever it is; others stay.

    Uses torch.overrides._pop_mode, _push_mode and _len_torch_function_stack (read in 2.13.0). No fallback.
    """
    overrides: Any = torch.overrides
    above = []
    while overrides._len_torch_function_stack():
        top = overrides._pop_mode()
        if top is mode:
            break
        above.append(top)
    for other in reversed(above):
        overrides._push_mode(other)


def keep_saved_result(profiler: Any, path: Path) -> None:
    """Let a profiler whose result was saved as a file save it again, as often as its owner likes: torch does it once.

    Uses torch.autograd.profiler.profile.kineto_results, which torch.profiler.profile has as `profiler`, and its save()
    (read in 2.13.0, there since 1.8). Where they are gone, torch's own second save raises, as it does without us.
    """
    inner = getattr(profiler, "profiler", profiler)
    results = getattr(inner, "kineto_results", None)
    # a monitor of CUPTI adds to what is saved, and would do so twice
    if results is None or isinstance(results, _SavedResult) or getattr(profiler, "_use_cupti_monitor", False):
        return
    inner.kineto_results = _SavedResult(results, path)


class _SavedResult:
    """The result of one cycle of a profiler with a copy of its file, which goes when the profiler does."""

    def __init__(self, results: Any, path: Path) -> None:
        self._results, self._content = results, TemporaryFile()  # noqa: SIM115 - lives as long as this
        with path.open("rb") as file:
            copyfileobj(file, self._content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._results, name)

    def save(self, path: str) -> None:
        self._content.seek(0)
        with open(path, "wb") as out:  # noqa: PTH123 - as torch takes it
            copyfileobj(self._content, out)


def is_copied_lazily(tensor: Any) -> bool:
    """Whether a tensor's memory is copied when it is written to (torch._C._is_cow_tensor; fallback: no)."""
    asked = getattr(torch._C, "_is_cow_tensor", None)
    return asked is not None and tensor.layout == torch.strided and bool(asked(tensor))


def modes_entered() -> tuple[int, int]:
    """How many function and dispatch modes see each call of torch (torch._C._len_torch_*_stack; fallback: none)."""
    counts = (getattr(torch._C, f"_len_torch_{kind}_stack", None) for kind in ("function", "dispatch"))
    return tuple(0 if count is None else count() for count in counts)  # type: ignore[return-value] # two of them


def leave_modes(wanted: tuple[int, int]) -> None:
    """Leave the modes that were entered last (torch._C._pop_torch_*_stack; fallback: none)."""
    for at, kind in enumerate(("function", "dispatch")):
        pop = getattr(torch._C, f"_pop_torch_{kind}_stack", None)
        while pop is not None and modes_entered()[at] > wanted[at]:
            pop()


_NOT_OWN: set[str] = set()  # seen before: thousands of names, and every sample asks
_OWN: dict[int, frozenset[str]] = {}  # by how many names there are


def own_operators() -> frozenset[str]:
    """Operators of torch that Python code has replaced (torch.library._impls; fallback: none).

    Without those that vmap() and compile() bring when they are first called.
    """
    known = getattr(torch.library, "_impls", ())
    if len(known) in _OWN:
        return _OWN[len(known)]
    names = set(known) - _NOT_OWN
    own = {n for n in names if n.startswith("aten/") and not n.rpartition("/")[2].startswith(("FuncTorch", "Meta"))}
    _NOT_OWN.update(names - own)
    _OWN.clear()
    _OWN[len(known)] = frozenset(own)
    return _OWN[len(known)]
