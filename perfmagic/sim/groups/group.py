"""The process group that torch.distributed sees. Names and arguments are torch's own."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from perfmagic.base.clock import HOST, VIRTUAL
from perfmagic.base.errors import DeviceError
from perfmagic.base.user_lines import describe_line, user_line
from perfmagic.sim.device import NAME, all_devices
from perfmagic.sim.groups import functional
from perfmagic.sim.groups import operations as ops
from perfmagic.sim.groups.agreement import Check, Collective, Header, Message
from perfmagic.sim.groups.arguments import Given, Whole, check_parts, refs_of
from perfmagic.sim.groups.gloo import Gloo, Side, wait_for_ends
from perfmagic.sim.groups.hosting import Begin, hand_over
from perfmagic.sim.groups.ledger import Ledger, PendingOperation, Request
from perfmagic.sim.groups.operations import OperationKind
from perfmagic.sim.groups.posting import Call, Courier, Group, post
from perfmagic.sim.refusals import refuse_flat_sharding
from perfmagic.sim.torch_private import begin_new_steps, new_options, private_device_name, wrap_sharding

# What torch asks of a process group besides communication: its names, its rank, its end.

_NO_DESC = ("undefined", "default_pg")  # what torch says where the maker of a group said nothing
_ProcessGroup: Any = dist.ProcessGroup  # whose stubs have the overloads of each method, old forms among them


class Identity(_ProcessGroup):  # type: ignore[misc]
    """Names, rank and end of a group. torch's C++ code asks for some of them in its own spelling."""

    takes_simulated_tensors = True  # perfmagic.sim.dispatch asks
    supports_splitting = supports_coalescing = supports_time_estimate = False

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta, backend: str) -> None:
        if HOST.measured:
            refuse_measured(size)
        super().__init__(rank, size)
        self._rank, self._size, self._backend, self._desc = rank, size, backend, "undefined"
        self.gloo = Gloo(store, rank, size, timeout)
        self.ledger = Ledger()
        self.couriers: dict[tuple[str, int | None, int], Courier] = {}
        self._known: Group | None = None
        self._name = ""

    def __repr__(self) -> str:
        """What torch says in errors about a group that it has forgotten."""
        return f"<process group{': ' if self.gloo.freed else ''}{self.gloo.freed}>"

    @property
    def known(self) -> Group:
        """Name and ranks, which torch gives a group after it is made."""
        if self._known is None:
            ranks = tuple(dist.get_process_group_ranks(self))
            desc = "" if self._desc in _NO_DESC else self._desc
            self._known = Group(self.group_name, self._rank, ranks, self.gloo, self.ledger, desc)
        return self._known

    def pending(self) -> list[PendingOperation]:
        """The operations of this group that are queued or under way."""
        return [self._describe(self._known, request) for request in self.ledger.open()] if self._known else []

    def failed(self) -> list[PendingOperation]:
        """The first operation that failed since the group was connected, if any."""
        request = self.ledger.first_failure
        return [self._describe(self._known, request)] if self._known and request else []

    @staticmethod
    def _describe(known: Group, request: Request) -> PendingOperation:
        what = request.what(known.ranks)
        return PendingOperation(
            known.name, known.ranks, *what, request.running, request.since_ns, request.waited, known.desc
        )

    def renew(self, epoch: int, timeout: timedelta) -> None:
        """Reconnect and count from 1 again. Models that hold the group continue with it."""
        self.ledger.forget()
        self.gloo.connect(f"renewed {epoch}", timeout)

    def drain(self) -> None:
        """Wait until all operations are done. Raises nothing where they fail."""
        for request in self.ledger.open():
            request.settle()

    def drain_freed(self, within_s: float) -> None:
        """As drain(), for a group that was freed: operations on host tensors that do not end are given up.

        A send that is under way while its connection is shut may never return from gloo. Its thread is left to it.
        """
        until = time.monotonic() + within_s
        for request in self.ledger.open():
            if request.on_device:
                request.settle()
            elif not request.settle(max(0.0, until - time.monotonic())):
                self.give_up()

    def give_up(self) -> None:
        """End all waits for operations on host tensors, whatever gloo does with them."""
        self.couriers.clear()
        for request in self.ledger.open():
            request.give_up()

    def rank(self) -> int:
        wrap_sharding(refuse_flat_sharding)  # FSDP, imported by now, asks for the rank before all else
        return self._rank

    def size(self) -> int:
        return self._size

    def name(self) -> str:
        return self._backend

    @property
    def group_name(self) -> str:
        return self._name or str(dist.distributed_c10d._world.pg_names[self])

    @property
    def group_desc(self) -> str:
        return self._desc

    def _set_group_desc(self, desc: str) -> None:
        self._desc = desc

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device(kind) for kind in ("cpu", NAME) if kind in ("cpu", private_device_name())]

    def _get_backend(self, device: torch.device) -> Identity:
        return self

    def set_timeout(self, timeout: timedelta) -> None:
        self.gloo.set_timeout(timeout)

    def shutdown(self) -> None:
        """The group will not be used any more. Its operations end first."""
        self._name = self.group_name  # torch asks for it once more, and has forgotten the group by then
        self.drain()

    def abort(self) -> None:
        """End what is under way."""
        self.gloo.free("the group was aborted")

    getRank, getSize, getBackendName = rank, size, name  # noqa: N815
    pg_name = group_name

    def getGroupName(self) -> str:  # noqa: N802
        return self.group_name

    def getGroupDesc(self) -> str:  # noqa: N802
        return self.group_desc

    def setGroupDesc(self, desc: str) -> None:  # noqa: N802
        self._desc = desc


Work = Any
Run = Callable[[Any, Any, Any, Any], None]  # gloo, outputs, inputs, options


class SimGroup(Identity):
    """Tensors of the simulated device go onto the group's stream, host tensors to gloo.

    As with NCCL: a collective waits for the current stream, and wait() makes the current stream wait for it.
    """

    _device: int | None = None  # the one this rank communicates from

    def allreduce(self, tensors: Any, opts: Any = None) -> Work:
        tensors, opts = _list(tensors), opts or new_options("Allreduce")
        given = Given(tensors, [], opts)
        return self._start(ops.ALL_REDUCE, given, ops.all_reduce, lambda g: g.allreduce(tensors, opts))

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Work:
        tensors, opts = _list(tensors), opts or new_options("AllreduceCoalesced")
        given = Given(tensors, [], opts)
        return self._start(
            ops.ALL_REDUCE_COALESCED, given, ops.all_reduce, lambda g: g.allreduce_coalesced(tensors, opts)
        )

    def broadcast(self, tensors: Any, opts: Any = None) -> Work:
        tensors, opts = _list(tensors), opts or new_options("Broadcast")
        given = Given(tensors, [], opts)
        return self._start(ops.BROADCAST, given, ops.broadcast, lambda g: g.broadcast(tensors, opts))

    def reduce(self, tensors: Any, opts: Any = None) -> Work:
        tensors, opts = _list(tensors), opts or new_options("Reduce")
        given = Given(tensors, [], opts)
        return self._start(ops.REDUCE, given, ops.reduce, lambda g: g.reduce(tensors, opts))

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or new_options("Allgather")
        given = Given(outputs, inputs, opts)
        for some in outputs:
            check_parts("all_gather", some, self._size)
        return self._start(ops.ALL_GATHER, given, ops.all_gather, lambda g: g.allgather(outputs, inputs, opts))

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or new_options("Allgather")
        given = Given(outputs, inputs, opts)
        check_parts("all_gather_coalesced", outputs, self._size)
        return self._start(
            ops.ALL_GATHER, given, ops.all_gather_lists, lambda g: g.allgather_coalesced(outputs, inputs, opts)
        )

    def all_gather_single(self, output: Any, input: Any, opts: Any = None) -> Work:  # noqa: A002 - torch's name
        return self.all_gather_single_coalesced([output], [input], opts)

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or new_options("Allgather")
        given = Given(list(outputs), list(inputs), opts)
        given.check_whole("all_gather_into_tensor", self._size, whole=outputs, part=inputs)
        return self._start(
            ops.ALL_GATHER_BASE,
            given,
            ops.all_gather_base,
            lambda g: [g._allgather_base(*each, opts) for each in zip(outputs, inputs, strict=True)],
        )

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or new_options("ReduceScatter")
        given = Given(outputs, inputs, opts)
        for some in inputs:
            check_parts("reduce_scatter", some, self._size)
        return self._start(
            ops.REDUCE_SCATTER, given, ops.reduce_scatter, lambda g: g.reduce_scatter(outputs, inputs, opts)
        )

    def reduce_scatter_single(self, output: Any, input: Any, opts: Any = None) -> Work:  # noqa: A002 - torch's name
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or new_options("ReduceScatter")
        given = Given(list(outputs), list(inputs), opts)
        given.check_whole("reduce_scatter_tensor", self._size, whole=inputs, part=outputs)
        return self._start(
            ops.REDUCE_SCATTER_BASE,
            given,
            ops.reduce_scatter_base,
            lambda g: [g._reduce_scatter_base(*each, opts) for each in zip(outputs, inputs, strict=True)],
        )

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or new_options("AllToAll")
        for some in (outputs, inputs):
            check_parts("all_to_all", some, self._size)
        splits = [t.numel() for t in outputs], [t.numel() for t in inputs]
        return self._start(
            ops.ALL_TO_ALL,
            Given(outputs, inputs, opts, splits=splits),
            ops.all_to_all,
            lambda g: ops.begin_all_to_all(g, outputs, inputs, opts),
        )

    def all_to_all_single(
        self,
        output: Any,
        input: Any,  # noqa: A002 - torch's name
        output_split_sizes: Any = None,
        input_split_sizes: Any = None,
        opts: Any = None,
    ) -> Work:
        opts = opts or new_options("AllToAll")
        splits = [list(sizes or ()) for sizes in (output_split_sizes, input_split_sizes)]
        given = Given([output], [input], opts)
        given.set_splits(splits, self._size)

        def run(gloo: Any, outputs: Any, inputs: Any, opts: Any) -> None:
            gloo.alltoall_base(*outputs, *inputs, *splits, opts).wait()

        return self._start(ops.ALL_TO_ALL_BASE, given, run, lambda g: g.alltoall_base(output, input, *splits, opts))

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or new_options("Gather")
        return self._start(
            ops.GATHER, Given(outputs, inputs, opts), ops.gather, lambda g: g.gather(outputs, inputs, opts)
        )

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or new_options("Scatter")
        return self._start(
            ops.SCATTER, Given(outputs, inputs, opts), ops.scatter, lambda g: g.scatter(outputs, inputs, opts)
        )

    def barrier(self, opts: Any = None) -> Work:
        opts = opts or new_options("Barrier")
        given = Given([], [], opts, device=self._device)  # on its stream where this rank communicates from the device
        return self._start(ops.BARRIER, given, ops.barrier, lambda g: g.barrier(opts), blocks=True)

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """gloo's own, which says which rank does not come within the time."""
        self.drain()
        side = self.known.gloo.host.group
        within = timeout or self.known.gloo.timeout
        self.known.gloo.run("monitored_barrier", lambda: side.monitored_barrier(within, wait_all_ranks))
        if VIRTUAL:  # gloo keeps no virtual time
            self.barrier().wait()

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Work:
        given = Given([], _list(tensors), None, title=f"send {self._rank}->{dst}", peer=dst, way="send", tag=tag)
        return self._message(ops.SEND, given, ops.send)

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Work:
        given = Given(_list(tensors), [], None, title=f"recv {self._rank}<-{src}", peer=src, way="recv", tag=tag)
        return self._message(ops.RECV, given, ops.recv)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        given = Given(_list(tensors), [], None, title=f"recv {self._rank}<-any", way="recv", tag=tag)
        return self._message(ops.RECV_ANY, given, ops.recv)

    # other spellings, of other versions of torch and of its C++ code
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    def _start(self, operation: OperationKind, given: Given, run: Run, begin: Begin, *, blocks: bool = False) -> Work:
        """Begin a collective. run: on the stream.  begin: on host tensors."""
        __tracebackhide__ = True
        request, whole, header = self._request(operation, given)
        check = Collective(header, self._rank, self.known.ranks)
        return self._queued(operation, given, request, whole, check, run, begin, lambda: None, blocks=blocks)

    def _message(self, operation: OperationKind, given: Given, do: Callable[[Any, Any, Any, Message], Any]) -> Work:
        """Begin one end of a message. do: on the stream and on host tensors, once the other end is there."""
        __tracebackhide__ = True
        request, whole, header = self._request(operation, given)
        end = Message(header, self._rank, given.peer, self.known.ranks, given.tag, given.way == "send")
        return self._queued(
            operation, given, request, whole, end, lambda g, outputs, inputs, _: do(g, outputs, inputs, end).wait(),
            lambda g: do(g, given.outputs, given.inputs, end), lambda: end.peer,
        )  # fmt: skip

    def _request(self, operation: OperationKind, given: Given) -> tuple[Request, Whole, Header]:
        """Number and note an operation, and make the header that the other ranks get."""
        __tracebackhide__ = True
        known, whole, title = self.known, given.whole(operation, self._size), given.title or operation.title
        if known.gloo.is_ended():
            raise known.gloo.given_up(title)
        number, place = known.ledger.next_number(given.way, given.peer), user_line()
        request = Request(operation.kind, title, number, whole.size_bytes, given.peer, given.device is not None, *place)
        return request, whole, given.header(operation, whole, self._size, number, describe_line(*place))

    def _queued(
        self, operation: OperationKind, given: Given, request: Request, whole: Whole, check: Check, run: Run,
        begin: Begin, source: Callable[[], int | None], *, blocks: bool = False,
    ) -> Work:  # fmt: skip
        __tracebackhide__ = True
        known = self.known
        if given.device is None:
            courier = self._courier(given)
            result = given.outputs or given.inputs
            return hand_over(known, courier, request, check, begin, result, source, operation)
        self._settle_on(given.device)
        outputs, inputs, opts = refs_of(given.outputs), refs_of(given.inputs), given.opts
        call = Call(
            operation, whole.elements, whole.dtype, whole.size_bytes, given.device, given.inputs, given.outputs,
            given.peer, given.way, blocks, given.title,
        )  # fmt: skip
        known.ledger.add(request)
        return post(
            known, call, request, check,
            lambda gloo, memory: run(gloo, memory.real(outputs), memory.real(inputs), opts),
            given.outputs, source,
        )  # fmt: skip

    def _courier(self, given: Given) -> Courier:
        """The courier of all collectives, or of the messages with one tag to or from one rank."""
        key = given.way, given.peer, given.tag
        if key not in self.couriers:
            self.couriers[key] = Courier(" ".join(str(part) for part in key if part not in ("", None)))
        return self.couriers[key]

    def _settle_on(self, device: int) -> None:
        """Note the device that this rank communicates from. Raises DeviceError for tensors on another."""
        __tracebackhide__ = True
        if self._device is None:
            self._device = device
        if self._device != device:
            raise DeviceError(
                f"this rank communicates from sim:{self._device}, and the tensors are on sim:{device}",
                hint="a rank has one device: move the tensors there, or make a group for the other device",
            )


def _list(tensors: Any) -> list[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


# All groups of the process: registered with torch, freed, renewed, left.

_LEAVE_S = 5.0  # what others are in the middle of with a process that ends may take so long
_LOST_S = 2.0  # what gloo ends at all after its connections were shut it ends within some ms
_groups: list[weakref.ref[SimGroup]] = []  # in the order they were made, which is that of every rank


def register(names: Sequence[str]) -> None:
    """Tell torch of the backend, once; the first name is the default for the simulated device."""
    if names[0].upper() in dist.Backend._plugins:
        return
    for name in names:
        dist.Backend.register_backend(name, partial(_made, name), devices=["sim", "cpu"])
    functional.register()
    atexit.register(leave)


def pending() -> list[PendingOperation]:
    """The operations of all groups that are queued or under way, the oldest first."""
    return sorted((operation for group in _alive() for operation in group.pending()), key=lambda o: o.since_ns)


def failed() -> list[PendingOperation]:
    """The first operation of each group that failed since it was connected, the oldest first."""
    return sorted((operation for group in _alive() for operation in group.failed()), key=lambda o: o.since_ns)


def free(reason: str) -> int:
    """Shut the connections of all groups; returns how many. What gloo does not end is given up a little later."""
    groups = _alive()
    # no references: a gloo group that ends on a thread of Python's aborts a process that is ending meanwhile
    sides = [(weakref.ref(group), weakref.ref(group.gloo.host)) for group in groups]
    late = threading.Timer(_LOST_S, _give_up, [sides])
    late.daemon = True
    late.start()
    return sum(group.gloo.free(reason) for group in groups)


def _give_up(freed: list[tuple[weakref.ref[SimGroup], weakref.ref[Side]]]) -> None:
    for group_ref, side_ref in freed:
        group = group_ref()
        # another side: it is reconnected, and what it does now was not freed
        if group is not None and group.gloo.host is side_ref():
            group.give_up()


def renew(epoch: int, timeout_s: float) -> None:
    """Reconnect every group. What was queued ends first, and what failed on the device is forgotten."""
    groups = _alive()
    for group in groups:
        if not group.gloo.freed:
            group.gloo.free("the groups are reconnected")
        group.drain_freed(_LOST_S)
    for device in all_devices():
        for lane in list(device.lanes.values()):
            lane.drain()
        device.errors.clear()
    for group in groups:
        group.renew(epoch, timedelta(seconds=timeout_s))
    begin_new_steps()


def forget() -> None:
    """End all groups, and forget them. A model may hold one of them, but none is reconnected."""
    for group in _alive():
        group.gloo.free("destroy_process_group() ended its group; make models, meshes and groups again")
        group.drain_freed(_LOST_S)
    _groups.clear()


def most_ranks() -> int:
    """Of the groups of this process."""
    return max((group.size() for group in _alive()), default=1)


def refuse_measured(n_ranks: int) -> None:
    """Raise DeviceError for a measured host among several ranks."""
    if n_ranks > 1:
        message = "ranks share this machine's cores: the host's time of each would be that of the others, too"
        raise DeviceError(message, hint='perfmagic.device(…, host="counted") in ranks; "measured" in one process')


def _made(name: str, store: Any, rank: int, size: int, timeout: timedelta) -> SimGroup:
    group = SimGroup(store, rank, size, timeout, name)
    _groups.append(weakref.ref(group))
    return group


def _alive() -> list[SimGroup]:
    groups = [group for ref in list(_groups) if (group := ref()) is not None]
    _groups[:] = [weakref.ref(group) for group in groups]
    return groups


def leave() -> None:
    """End the groups with the process: operations end, then connections are shut, so that no thread is left."""
    until = time.monotonic() + _LEAVE_S
    groups = _alive()
    while any(group.pending() for group in groups) and time.monotonic() < until:
        time.sleep(0.01)
    for group in groups:
        group.gloo.free("the process ended")
        for courier in list(group.couriers.values()):
            courier.end(_LEAVE_S)
    wait_for_ends(max(0.0, until - time.monotonic()))
