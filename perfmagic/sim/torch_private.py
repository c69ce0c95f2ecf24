"""What the simulated device uses of torch that torch does not promise.

Each function says what it uses, the version it was read in, and what happens where the name is gone. Nothing here is
imported before torch is wanted.
"""

from __future__ import annotations

import gc
import sys
from _thread import interrupt_main
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import partial, wraps
from threading import Timer
from typing import Any

import torch

from perfmagic.base.errors import DeviceError


def register_python_backend(name: str, module: object) -> None:
    """Give the PrivateUse1 device a name and a torch.<name> module, without a compiled extension.

    Uses torch.utils.backend_registration._setup_privateuseone_for_python_backend (read in 2.13.0; there since 2.10).
    No fallback: raises DeviceError with the version that is needed.
    """
    from torch.utils import backend_registration

    setup = getattr(backend_registration, "_setup_privateuseone_for_python_backend", None)
    if setup is None:
        raise DeviceError(
            f"the simulated device needs a torch that takes devices written in Python; this is {torch.__version__}",
            hint="pip install 'torch>=2.10'",
        )
    taken = private_device_name()
    if taken not in ("privateuseone", name):
        message = f"torch holds one device of its own making, and {taken!r} is already that device"
        raise DeviceError(message, hint="restart the kernel and load the simulated device without the other extension")
    _accelerator.append(accelerator_kind())
    setup(name, backend_module=module, device_guard=_make_guard())


_accelerator: list[str | None] = []  # found before a device of ours became what torch.accelerator means


def accelerator_kind() -> str | None:
    """The accelerator that torch found on this machine ("mps", "xpu", "cuda"), None without one; starts nothing.

    torch.accelerator means a PrivateUse1 device, where there is one, before every other (read in 2.13.0).
    """
    if _accelerator:
        return _accelerator[0]
    accelerator = getattr(torch, "accelerator", None)  # there since 2.6
    if accelerator is None or not accelerator.is_available():
        return None
    return str(accelerator.current_accelerator().type)


_lost: deque[BaseException] = deque(maxlen=1)


def _make_guard() -> Any:
    """What torch asks which type the device has.

    torch also asks while an error in a backward pass (of a user's hook, for example) is on its way out of the thread
    that runs it, with that error still set; Python refuses a call's result then, and torch ends the process. So the
    error is taken away here and kept: torch then raises a SystemError without words, and `lost_error` has them.
    Uses torch._C._acc.DeviceGuard and torch._C._autograd.DeviceType (read in 2.13.0, there since 2.10).
    """
    kind = torch._C._autograd.DeviceType.PrivateUse1
    exhausted = iter(())

    class Guard(torch._C._acc.DeviceGuard):
        def type_(self) -> Any:
            try:
                next(exhausted, None)  # raises an error that is set
            except KeyboardInterrupt:  # nothing may be raised here: it is sent again in a moment
                Timer(1e-3, interrupt_main).start()
            except BaseException as error:  # noqa: BLE001 - kept, see above
                _lost.append(error)
            return kind

    return Guard()


def tell_lost_errors() -> None:
    """Have every backward pass raise the error that torch lost in it, instead of a SystemError without words.

    Also where torch's engine does not know the device: it counts devices once, at the first backward pass of a process.
    To be counted always would start a thread in processes without a simulated device. torch refuses a backward pass in
    the forked children of such a process.

    Wraps torch.autograd._engine_run_backward, which backward and torch.autograd.grad come through (read in 2.13.0).
    Where the name is gone, the SystemError stays.
    """
    run = getattr(torch.autograd, "_engine_run_backward", None)
    if run is None or hasattr(run, "tells_lost_errors"):
        return

    def run_and_tell(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        lost_error()  # of a pass started in another way: it was raised long ago
        try:
            return run(*args, **kwargs)
        except SystemError:
            error = lost_error()
            if error is None:
                raise
            try:
                raise error from None
            finally:
                del error  # else its traceback would keep it, and with it the memory of the pass
        except RuntimeError as error:
            if "device_ready_queues_" not in str(error):
                raise
            raise DeviceError(
                "a backward pass ran on another device before the simulated device was loaded, and torch's engine "
                "counts devices once",
                hint='restart the kernel, and call perfmagic.device("sim") before the first backward pass',
            ) from None

    vars(run_and_tell)["tells_lost_errors"] = True
    vars(torch.autograd)["_engine_run_backward"] = run_and_tell


def lost_error() -> BaseException | None:
    """The error of a backward pass that torch lost since this was last asked, None if there is none."""
    try:
        return _lost.pop()
    except IndexError:
        return None


def private_device_name() -> str:
    """The name PrivateUse1 goes by.

    Uses torch._C._get_privateuse1_backend_name (read in 2.13.0); fallback: the name torch starts with.
    """
    get = getattr(torch._C, "_get_privateuse1_backend_name", None)
    return str(get()) if get else "privateuseone"


def plain_torch_function() -> Any:
    """The __torch_function__ of a subclass that wants none, which spares a call into Python for every attribute.

    Uses torch._C._disabled_torch_function_impl (read in 2.13.0); fallback: torch.Tensor's own, slower.
    """
    return getattr(torch._C, "_disabled_torch_function_impl", torch.Tensor.__torch_function__)


def without_torch_function() -> Any:
    """A with block in which subclasses' __torch_function__ is not called.

    Uses torch._C.DisableTorchFunctionSubclass (read in 2.13.0; torch's documents name it). No fallback.
    """
    return torch._C.DisableTorchFunctionSubclass()


def without_modes() -> Any:
    """A with block in which no __torch_function__ is called, of a subclass or of a mode (torch.set_default_device).

    Uses torch._C.DisableTorchFunction (read in 2.13.0). No fallback.
    """
    return torch._C.DisableTorchFunction()


def in_function_mode() -> bool:
    """Whether a mode sees the functions that this thread calls now, as it does in code that no mode has called.

    Uses torch._C._len_torch_function_stack (read in 2.13.0). No fallback.
    """
    return bool(torch._C._len_torch_function_stack())


def in_inference() -> Any:
    """torch.inference_mode() for a block, without its part in Python, which takes 1 µs.

    Uses torch._C._InferenceMode (read in 2.13.0). No fallback.
    """
    return torch._C._InferenceMode(True)


def direct(func: Any) -> Callable[..., Any]:
    """What calls an operator without OpOverload's frame in Python. Uses OpOverload._op (read in 2.13.0)."""
    return getattr(func, "_op", func)  # type: ignore[no-any-return]


def make_wrapper(
    cls: type[torch.Tensor],
    size: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Any:
    """A tensor of a subclass with sizes and a device but no memory of its own.

    torch's C++ raises where it asks for the address of that memory. Arguments go by position, as torch takes a fifth
    longer to read them by name (memory_format and layout are its own defaults).
    Uses torch.Tensor._make_wrapper_subclass (read in 2.13.0), no fallback, and torch._C._set_throw_on_mutable_data_ptr
    (read in 2.13.0); fallback: the address is 0.
    """
    t = _make_wrapper(cls, size, stride, offset, None, dtype, torch.strided, device)
    if _forbid_address is not None:
        _forbid_address(t)
    return t


_make_wrapper: Callable[..., Any] = torch.Tensor._make_wrapper_subclass


_forbid_address: Callable[[torch.Tensor], None] | None = getattr(torch._C, "_set_throw_on_mutable_data_ptr", None)


def in_backward() -> bool:
    """Is this thread running a backward pass now?

    Uses torch._C._current_graph_task_id (read in 2.13.0); fallback: never, so backward runs on the default stream.
    """
    return backward_id() != -1


backward_id: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)  # asked at every launch


def autograd_numbers() -> tuple[int, int]:
    """The number of the autograd node that this thread made last, and that of the node it runs now; -1 for none.

    Each thread counts the nodes that it makes; an operator makes its node before its kernel is launched.
    Uses torch._C._autograd._get_sequence_nr, torch._C._current_autograd_node and Node._sequence_nr (read in 2.13.0);
    fallback: -1, so that no backward finds its forward.
    """
    node = _current_node()
    running = -1 if node is None else int(node._sequence_nr())
    return _next_number() - 1, running if running < _NO_NUMBER else -1


_next_number: Callable[[], int] = getattr(torch._C._autograd, "_get_sequence_nr", lambda: 0)


_current_node: Callable[[], Any] = getattr(torch._C, "_current_autograd_node", lambda: None)


_NO_NUMBER = 2**63  # of a node that stands for a parameter: it comes last, and belongs to no operator


def backward_node() -> tuple[str, int]:
    """The node of the backward pass that this thread runs now: its name and its number; ("", -1) for none.

    -1 for a node that stands for a parameter. Uses what autograd_numbers uses. The node is not kept: it would keep what
    it saved.
    """
    node = _current_node()
    return ("", -1) if node is None else (str(node.name()), autograd_numbers()[1])


def place_of_loading(place: str) -> str:
    """Where torch.load(map_location=...) wants a tensor that was at a place; that place outside of torch.load.

    Uses torch._utils._get_restore_location (read in 2.13.0; there since 2.5); fallback: where it was.
    """
    from torch import _utils

    wanted = getattr(_utils, "_get_restore_location", None)
    try:
        return place if wanted is None else str(wanted(place))
    except RuntimeError:  # a function: it is given storages, which are on the host, and tensors follow it there
        return "cpu"


def allow_in_checkpoints(function: Callable[..., Any]) -> None:
    """Have torch.load(weights_only=True), its default, call a function that a saved tensor names.

    torch.serialization.add_safe_globals is promised by torch (from 2.5 on); without it nothing is done.
    """
    allow = getattr(torch.serialization, "add_safe_globals", None)
    if allow is not None:
        allow([function])


def schema_of(func: Any) -> Any:
    """The schema of an operator: names, types and aliasing. Uses OpOverload._schema (read in 2.13.0). No fallback."""
    return func._schema


def overloads_with_out(name: str) -> list[str]:
    """The out= variants of an aten operator, as "name.overload". Read in 2.13.0."""
    packet = getattr(torch.ops.aten, name)
    return [f"{name}.{overload}" for overload in packet.overloads() if "out" in overload]


def mark_lazy(t: torch.Tensor, *, conj: bool, neg: bool) -> None:
    """Tell torch that a wrapper's values are yet to be conjugated or negated.

    Uses torch._C._set_conj and _set_neg (read in 2.13.0). No fallback.
    """
    if conj:
        torch._C._set_conj(t, True)
    if neg:
        torch._C._set_neg(t, True)


def is_composite(func: Any) -> bool:
    """Whether torch knows an operator as a function of others, also below autograd.

    Uses torch._C._dispatch_has_kernel_for_dispatch_key (read in 2.13.0). No fallback.
    """
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"))


def kernel_for_any_device(func: Any) -> Callable[..., Any] | None:
    """The kernel of an operator that was written for this device, or for every device; None where there is none.

    Uses torch._C._dispatch_has_kernel_for_dispatch_key, OpOverload.redispatch and DispatchKeySet (read in 2.13.0).
    No fallback.
    """
    has: Callable[[str, str], bool] = torch._C._dispatch_has_kernel_for_dispatch_key
    if not any(has(func.name(), key) for key in ("PrivateUse1", "CompositeExplicitAutograd")):
        return None
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.PrivateUse1)
    return lambda *args, **kwargs: func.redispatch(keys, *args, **kwargs)


def operator_named(name: str, namespace: str = "aten") -> Any | None:
    """The operator of a name like "sum.dim_IntList", None where this torch has none. Read in 2.13.0."""
    packet, _, overload = name.partition(".")
    operators = getattr(getattr(torch.ops, namespace), packet, None)
    return None if operators is None else getattr(operators, overload or "default", None)


def go_on_below(key: str, func: Any, keys: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator as if no kernel stood at a dispatch key or above: for the kernel that stands there.

    keys: the dispatch keys of this call, which a kernel registered with_keyset is given.
    Uses torch._C._dispatch_keyset_full_after and OpOverload.redispatch (read in 2.13.0). No fallback.
    """
    __tracebackhide__ = True
    below = torch._C._dispatch_keyset_full_after(getattr(torch._C.DispatchKey, key))
    return func.redispatch(keys & below, *args, **kwargs)


def before_message(look: Callable[[Any, Any], None]) -> None:
    """Have look(tensor, group) called for each message that is made for torch.distributed.batch_isend_irecv.

    Once a process. group: None for the default one.
    Wraps torch.distributed.P2POp.__init__(op, tensor, peer, group, …) (read in 2.13.0). Where the name is gone, it is
    not called.
    """
    message = getattr(torch.distributed, "P2POp", None)
    if message is None or hasattr(message.__init__, "looks"):
        return
    make = message.__init__

    @wraps(make)
    def look_and_make(self: Any, op: Any, tensor: Any, *args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        look(tensor, args[1] if len(args) > 1 else kwargs.get("group"))
        make(self, op, tensor, *args, **kwargs)

    vars(look_and_make)["looks"] = True
    message.__init__ = look_and_make


def gloo_devices(interfaces: Sequence[str]) -> list[Any]:
    """What gloo listens on: of the interfaces of those names, of the one it chooses where none is named.

    Connections are made at once, so that they are known. Uses ProcessGroupGloo.create_device and
    create_default_device (read in 2.13.0; lazy_init is left out where a version does not know it).
    """
    from torch._C._distributed_c10d import ProcessGroupGloo

    def make(create: Callable[..., Any], **options: Any) -> Any:
        try:
            return create(**options, lazy_init=False)
        except TypeError:
            return create(**options)

    if not interfaces:
        return [make(ProcessGroupGloo.create_default_device)]
    return [make(ProcessGroupGloo.create_device, interface=name) for name in interfaces]


def make_gloo(
    store: Any, prefix: str, rank: int, size: int, devices: list[Any], threads: int, timeout: timedelta
) -> Any:
    """A gloo group that is no group of torch.distributed's. Blocks until all ranks have come.

    Uses ProcessGroupGloo and its _Options with _devices, _threads and _timeout (read in 2.13.0). No fallback.
    """
    from torch._C import _distributed_c10d

    gloo: Any = _distributed_c10d.ProcessGroupGloo
    options = gloo._Options()
    options._devices, options._threads, options._timeout = devices, threads, timeout
    return gloo(_distributed_c10d.PrefixStore(prefix, store), rank, size, options)


def make_reducers_in(block: Callable[[], AbstractContextManager[None]]) -> None:
    """Have torch.nn.parallel.DistributedDataParallel make its reducers, and their maps, inside block(); once a process.

    Replaces torch.distributed.Reducer, where it looks for the class; the map is made by the constructor or by
    _set_static_graph (read in 2.13.0).
    """
    distributed: Any = torch.distributed
    if not distributed.is_available():
        return
    plain = distributed.Reducer

    class Reducer(plain):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            with block():
                super().__init__(*args, **kwargs)

        def _set_static_graph(self) -> None:
            with block():
                super()._set_static_graph()

    distributed.Reducer = Reducer


def provide_peer_copies(functions: dict[str, tuple[Callable[..., Any], Callable[..., bool]]]) -> None:
    """Have torch.nn.parallel.comm call functions for what is ours by the second of each pair; once a process.

    Sets torch._C._broadcast, _scatter, _gather and their kin, which a torch without CUDA lacks (read in 2.13.0).
    """
    for name, (function, is_ours) in functions.items():
        _choose_between(torch._C, name, function, is_ours)


def forget_background_streams() -> None:
    """Have torch.nn.parallel count the devices again: it keeps a list of streams, one for each that there was.

    Clears torch.nn.parallel._functions._streams (read in 2.13.0), where that module is loaded.
    """
    functions: Any = sys.modules.get("torch.nn.parallel._functions")
    if functions is not None and hasattr(functions, "_streams"):
        functions._streams = None


def leave_nccl_alone(is_ours: Callable[..., bool]) -> None:
    """Have torch.nn.parallel.comm add up what is ours without NCCL, and without its warning that NCCL is missing.

    Sets torch.cuda.nccl.is_available, which answers for the tensors to be added (read in 2.13.0); once a process.
    """
    from torch.cuda import nccl

    _choose_between(nccl, "is_available", lambda *_: False, is_ours)


def apply_replicas_in_turn(is_wanted: Callable[[], bool]) -> None:
    """Have DataParallel run its replicas one after the other on this thread, while that is wanted; once a process.

    Their threads would launch in an order that is another one on each run.
    Replaces parallel_apply where DataParallel and torch.nn.parallel look for it (read in 2.13.0): it starts no thread
    for one replica. Where the names are gone, threads run them.
    """
    plain = getattr(torch.nn.parallel, "parallel_apply", None)
    if plain is None or hasattr(plain, "in_turn"):
        return

    @wraps(plain)
    def apply(modules: Any, inputs: Any, kwargs_tup: Any = None, devices: Any = None) -> Any:
        if not is_wanted():
            return plain(modules, inputs, kwargs_tup, devices)
        n = len(modules)
        outputs: list[Any] = []
        rows = zip(modules, inputs, kwargs_tup or ({},) * n, devices or (None,) * n, strict=True)
        for module, given, named, device in rows:
            outputs += plain([module], [given], [named], [device])
        return outputs

    vars(apply)["in_turn"] = True
    torch.nn.parallel.parallel_apply = apply
    vars(sys.modules["torch.nn.parallel.data_parallel"])["parallel_apply"] = apply


def _choose_between(place: Any, name: str, function: Callable[..., Any], is_ours: Callable[..., bool]) -> None:
    """Put the function at this name for arguments that are ours; others go where they went before."""
    plain = getattr(place, name, None)
    if hasattr(plain, "provided"):
        return

    def choose(*args: Any) -> Any:
        __tracebackhide__ = True
        if plain is not None and not is_ours(*args):
            return plain(*args)
        return function(*args)

    vars(choose)["provided"] = True
    setattr(place, name, choose)


def new_options(operation: str) -> Any:
    """The options of an operation between ranks as torch sets them: "Allreduce", "AllToAll".

    Uses the classes of torch._C._distributed_c10d, of which torch.distributed exports some (read in 2.13.0).
    """
    from torch._C import _distributed_c10d

    return getattr(_distributed_c10d, f"{operation}Options")()


def wrap_sharding(refuse: Callable[[], None]) -> None:
    """Once FSDP is imported, have fully_shard move host tensors to the device, and the older FSDP call refuse().

    torch would set their .data, which has to be a tensor of the same kind. Replaces _move_states_to_device in
    torch.distributed.fsdp._fully_shard._fsdp_init, and _init_param_handle_from_module where FullyShardedDataParallel
    looks for it (read in 2.13.0). Where the names are gone, torch's own errors stay.
    """
    for module_name, name, wrapped in (
        ("_fully_shard._fsdp_init", "_move_states_to_device", _moving_states),
        ("fully_sharded_data_parallel", "_init_param_handle_from_module", partial(_asking_first, refuse)),
    ):
        names = vars(sys.modules.get(f"torch.distributed.fsdp.{module_name}", object))
        if name in names and not hasattr(names[name], "is_wrapped"):
            names[name] = wraps(names[name])(wrapped(names[name]))
            names[name].is_wrapped = True


def begin_new_steps() -> None:
    """Have each FSDP model forget the step that it is in: where a step failed, ranks are at different places of it.

    Uses FSDPModule.reset_iter_state, of models that have run (_get_fsdp_state()._is_root, read in 2.13.0). Where the
    names are gone, nothing is forgotten.
    """
    kind: Any = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
    if not hasattr(kind, "reset_iter_state"):
        return
    for module in [each for each in gc.get_objects() if issubclass(type(each), kind)]:
        if module._get_fsdp_state()._is_root:
            module.reset_iter_state()


def _moving_states(move: Callable[..., None]) -> Callable[..., None]:
    swap: Any = torch.utils.swap_tensors

    def move_states(params: list[Any], buffers: list[Any], device: torch.device) -> None:
        __tracebackhide__ = True
        for t in (*params, *buffers) if device.type == private_device_name() else ():
            if t.device.type == "cpu" and type(t) in (torch.Tensor, torch.nn.Parameter):
                there = t.detach().to(device)
                is_parameter = isinstance(t, torch.nn.Parameter)
                swap(t, torch.nn.Parameter(there, t.requires_grad) if is_parameter else there)
        move(params, buffers, device)

    return move_states


def _asking_first(ask: Callable[[], None], init: Callable[..., Any]) -> Callable[..., Any]:
    def ask_and_init(state: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if getattr(state.process_group, "takes_simulated_tensors", False):
            ask()
        return init(state, *args, **kwargs)

    return ask_and_init


def process_group_named(name: str) -> Any:
    """The process group of a name, as torch.ops._c10d_functional is given it. Read in 2.13.0. No fallback."""
    from torch._C import _distributed_c10d

    return _distributed_c10d._resolve_process_group(name)  # type: ignore[arg-type]  # a NewType of str


def host_kernels() -> dict[str, str]:
    """Names of the operators a device has to give torch, by what they are for.

    Read in 2.13.0 (native_functions.yaml). No fallback: registering a name that is gone raises RuntimeError.
    """
    return {
        "allocate": "empty.memory_format",
        "allocate_strided": "empty_strided",
        "copy": "_copy_from",
        "pin": "_pin_memory",
        "is_pinned": "is_pinned",
    }


@contextmanager
def unrecorded() -> Iterator[None]:
    """torch's profiler records nothing that this thread does or has begun in the block.

    Uses torch.autograd._enable_record_function, which is of one thread (read in 2.13.0). No fallback.
    """
    autograd: Any = torch.autograd
    autograd._enable_record_function(False)
    try:
        yield
    finally:
        autograd._enable_record_function(True)


def refuse_while_compiling(message: str, hint: str) -> None:
    """Raise DeviceError where torch.compile is reading the code that runs on this thread; nothing elsewhere.

    The error is also one that torch.compile raises as it is, and takes for no reason to go on without compiling.
    Uses torch._guards.CompileContext.try_get and torch._dynamo.exc.ShortenTraceback (read in 2.13.0). Where the names
    are gone, nothing is refused.
    """
    context = getattr(sys.modules.get("torch._guards"), "CompileContext", None)
    as_it_is = getattr(sys.modules.get("torch._dynamo.exc"), "ShortenTraceback", None)
    if context is None or as_it_is is None or context.try_get() is None:
        return
    __tracebackhide__ = True
    refused: Any = type("DeviceError", (as_it_is, DeviceError), {})
    error = refused(message, first_useful_frame=sys._getframe())  # it leaves out those of the compiler before this one
    error.hint = hint
    raise error


def take_lists_of(*kinds: type[torch.Tensor]) -> None:
    """Have torch's optimizers and clip_grad_norm_ run on lists of such tensors, as they do on CUDA's.

    Adds to _foreach_supported_types of torch.optim.optimizer and torch.utils._foreach_utils (read in 2.13.0). Where the
    names are gone, they run on a tensor at a time.
    """
    from torch.optim import optimizer
    from torch.utils import _foreach_utils

    for module in (optimizer, _foreach_utils):
        taken = getattr(module, "_foreach_supported_types", [])
        taken += [kind for kind in kinds if kind not in taken]


def refuse_loading(is_refused: Callable[[Any], None]) -> None:
    """Have torch.jit.load call is_refused(map_location) first; once a process.

    Wraps torch.jit.load, whose C++ writes to an address that tensors of the device do not have (seen in 2.13.0).
    """
    load: Any = torch.jit.load
    if hasattr(load, "asks_first"):
        return

    @wraps(load)
    def ask_and_load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        is_refused(map_location)
        return load(f, map_location, *args, **kwargs)

    vars(ask_and_load)["asks_first"] = True
    torch.jit.load = ask_and_load


def allows_tf32(kernel: str) -> bool:
    """Whether torch would let an operator multiply float32 as TF32 on CUDA.

    Asked by the newer names where they are: torch refuses the older ones once a newer one was set.
    """
    backends: Any = torch.backends
    if "conv" in kernel:
        conv = getattr(backends.cudnn, "conv", None)
        return bool(backends.cudnn.allow_tf32 if conv is None else conv.fp32_precision == "tf32")
    if kernel not in _MATRIX_PRODUCTS:
        return False
    matmul = backends.cuda.matmul
    return bool(matmul.fp32_precision == "tf32" if hasattr(matmul, "fp32_precision") else matmul.allow_tf32)


_MATRIX_PRODUCTS = frozenset(
    {"mm", "bmm", "addmm", "baddbmm", "addbmm", "linear", "matmul", "_addmm_activation", "mv", "addmv"}
)
