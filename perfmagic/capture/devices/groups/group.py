"""The process group that torch.distributed sees. Names and arguments are torch's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from perfmagic.capture.devices.groups import link, operations
from perfmagic.capture.devices.groups.agreement import Check, Collective, Message
from perfmagic.capture.devices.groups.arguments import Given, Whole, check_parts
from perfmagic.capture.devices.groups.courier import Courier
from perfmagic.capture.devices.groups.headers import Header
from perfmagic.capture.devices.groups.hosting import Begin, hand_over
from perfmagic.capture.devices.groups.identity import Identity
from perfmagic.capture.devices.groups.link import Operation
from perfmagic.capture.devices.groups.memory import refs_of
from perfmagic.capture.devices.groups.posting import Call, post
from perfmagic.capture.devices.groups.standing import Asked, where_asked, where_words
from perfmagic.capture.devices.torch_private import new_options
from perfmagic.errors import DeviceError

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
        return self._start(link.ALL_REDUCE, given, operations.all_reduce, lambda g: g.allreduce(tensors, opts))

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Work:
        tensors, opts = _list(tensors), opts or new_options("AllreduceCoalesced")
        given = Given(tensors, [], opts)
        return self._start(
            link.ALL_REDUCE_COALESCED, given, operations.all_reduce, lambda g: g.allreduce_coalesced(tensors, opts)
        )

    def broadcast(self, tensors: Any, opts: Any = None) -> Work:
        tensors, opts = _list(tensors), opts or new_options("Broadcast")
        given = Given(tensors, [], opts)
        return self._start(link.BROADCAST, given, operations.broadcast, lambda g: g.broadcast(tensors, opts))

    def reduce(self, tensors: Any, opts: Any = None) -> Work:
        tensors, opts = _list(tensors), opts or new_options("Reduce")
        given = Given(tensors, [], opts)
        return self._start(link.REDUCE, given, operations.reduce, lambda g: g.reduce(tensors, opts))

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or new_options("Allgather")
        given = Given(outputs, inputs, opts)
        for some in outputs:
            check_parts("all_gather", some, self._size)
        return self._start(link.ALL_GATHER, given, operations.all_gather, lambda g: g.allgather(outputs, inputs, opts))

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or new_options("Allgather")
        given = Given(outputs, inputs, opts)
        check_parts("all_gather_coalesced", outputs, self._size)
        return self._start(
            link.ALL_GATHER, given, operations.all_gather_lists, lambda g: g.allgather_coalesced(outputs, inputs, opts)
        )

    def all_gather_single(self, output: Any, input: Any, opts: Any = None) -> Work:  # noqa: A002 - torch's name
        return self.all_gather_single_coalesced([output], [input], opts)

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or new_options("Allgather")
        given = Given(list(outputs), list(inputs), opts)
        given.check_whole("all_gather_into_tensor", self._size, whole=outputs, part=inputs)
        return self._start(
            link.ALL_GATHER_BASE,
            given,
            operations.all_gather_base,
            lambda g: [g._allgather_base(*each, opts) for each in zip(outputs, inputs, strict=True)],
        )

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or new_options("ReduceScatter")
        given = Given(outputs, inputs, opts)
        for some in inputs:
            check_parts("reduce_scatter", some, self._size)
        return self._start(
            link.REDUCE_SCATTER, given, operations.reduce_scatter, lambda g: g.reduce_scatter(outputs, inputs, opts)
        )

    def reduce_scatter_single(self, output: Any, input: Any, opts: Any = None) -> Work:  # noqa: A002 - torch's name
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or new_options("ReduceScatter")
        given = Given(list(outputs), list(inputs), opts)
        given.check_whole("reduce_scatter_tensor", self._size, whole=inputs, part=outputs)
        return self._start(
            link.REDUCE_SCATTER_BASE,
            given,
            operations.reduce_scatter_base,
            lambda g: [g._reduce_scatter_base(*each, opts) for each in zip(outputs, inputs, strict=True)],
        )

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or new_options("AllToAll")
        for some in (outputs, inputs):
            check_parts("all_to_all", some, self._size)
        splits = [t.numel() for t in outputs], [t.numel() for t in inputs]
        return self._start(
            link.ALL_TO_ALL,
            Given(outputs, inputs, opts, splits=splits),
            operations.all_to_all,
            lambda g: operations.begin_all_to_all(g, outputs, inputs, opts),
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
        given.take_splits(splits, self._size)

        def run(gloo: Any, outputs: Any, inputs: Any, opts: Any) -> None:
            gloo.alltoall_base(*outputs, *inputs, *splits, opts).wait()

        return self._start(link.ALL_TO_ALL_BASE, given, run, lambda g: g.alltoall_base(output, input, *splits, opts))

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or new_options("Gather")
        return self._start(
            link.GATHER, Given(outputs, inputs, opts), operations.gather, lambda g: g.gather(outputs, inputs, opts)
        )

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or new_options("Scatter")
        return self._start(
            link.SCATTER, Given(outputs, inputs, opts), operations.scatter, lambda g: g.scatter(outputs, inputs, opts)
        )

    def barrier(self, opts: Any = None) -> Work:
        opts = opts or new_options("Barrier")
        given = Given([], [], opts, device=self._device)  # on its stream where this rank communicates from the device
        return self._start(link.BARRIER, given, operations.barrier, lambda g: g.barrier(opts), blocks=True)

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """torch has it for gloo alone."""
        raise DeviceError("monitored_barrier works with native gloo groups only", hint="use dist.barrier()")

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Work:
        given = Given([], _list(tensors), None, title=f"send {self._rank}->{dst}", peer=dst, way="send", tag=tag)
        return self._message(link.SEND, given, operations.send)

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Work:
        given = Given(_list(tensors), [], None, title=f"recv {self._rank}<-{src}", peer=src, way="recv", tag=tag)
        return self._message(link.RECV, given, operations.recv)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        given = Given(_list(tensors), [], None, title=f"recv {self._rank}<-any", way="recv", tag=tag)
        return self._message(link.RECV_ANY, given, operations.recv)

    # other spellings, of other versions of torch and of its C++ code
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    def _start(self, operation: Operation, given: Given, run: Run, begin: Begin, *, blocks: bool = False) -> Work:
        """Begin a collective. run: on the stream.  begin: on host tensors."""
        __tracebackhide__ = True
        asked, whole, header = self._asked(operation, given)
        check = Collective(header, self._rank, self.known.ranks)
        return self._queued(operation, given, asked, whole, check, run, begin, lambda: None, blocks=blocks)

    def _message(self, operation: Operation, given: Given, do: Callable[[Any, Any, Any, Message], Any]) -> Work:
        """Begin one end of a message. do: on the stream and on host tensors, once the other end is there."""
        __tracebackhide__ = True
        asked, whole, header = self._asked(operation, given)
        end = Message(header, self._rank, given.peer, self.known.ranks, given.tag, given.way == "send")
        return self._queued(
            operation, given, asked, whole, end, lambda g, outputs, inputs, _: do(g, outputs, inputs, end).wait(),
            lambda g: do(g, given.outputs, given.inputs, end), lambda: end.peer,
        )  # fmt: skip

    def _asked(self, operation: Operation, given: Given) -> tuple[Asked, Whole, Header]:
        """The operation with its number, and what the others are told of it."""
        __tracebackhide__ = True
        known, whole, title = self.known, given.whole(operation, self._size), given.title or operation.title
        if known.gloo.is_ended():
            raise known.gloo.given_up(title)
        number, place = known.ledger.next_number(given.way, given.peer), where_asked()
        asked = Asked(operation.kind, title, number, whole.size_bytes, given.peer, given.device is not None, *place)
        return asked, whole, given.header(operation, whole, self._size, number, where_words(*place))

    def _queued(
        self, operation: Operation, given: Given, asked: Asked, whole: Whole, check: Check, run: Run, begin: Begin,
        source: Callable[[], int | None], *, blocks: bool = False,
    ) -> Work:  # fmt: skip
        __tracebackhide__ = True
        known = self.known
        if given.device is None:
            courier = self._courier(given)
            return hand_over(known, courier, asked, check, begin, given.outputs or given.inputs, source)
        self._settle_on(given.device)
        outputs, inputs = refs_of(given.outputs), refs_of(given.inputs)
        call = Call(
            operation, whole.elements, whole.dtype, whole.size_bytes, given.device, given.inputs, given.outputs,
            given.peer, given.way, blocks, given.title,
        )  # fmt: skip
        known.ledger.add(asked)
        return post(
            known, call, asked, check,
            lambda gloo, memory: run(gloo, memory.of(outputs), memory.of(inputs), given.opts), given.outputs, source,
        )  # fmt: skip

    def _courier(self, given: Given) -> Courier:
        """Of all collectives, or of messages of one tag to or from one rank."""
        key = given.way, given.peer, given.tag
        if key not in self.couriers:
            self.couriers[key] = Courier(" ".join(str(part) for part in key if part not in ("", None)))
        return self.couriers[key]

    def _settle_on(self, device: int) -> None:
        """A rank communicates from one device. Raises DeviceError for tensors on another."""
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
