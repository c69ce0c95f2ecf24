"""A rank's part of the job: random states, device, store and process groups."""

from __future__ import annotations

import datetime as dt
import importlib
import io
import os
import pickle
import socket
import sys
import time
from typing import Any

from perfmagic import sim
from perfmagic.base.errors import DeviceError
from perfmagic.capture.devices.backends import active_backends, choose_device, device, require_torch
from perfmagic.capture.ranks.groups import Groups, groups_for
from perfmagic.capture.ranks.helpers import show_key_waits
from perfmagic.capture.ranks.pings import Clocks
from perfmagic.capture.ranks.settings import Settings


class Job:
    """One rank of a job.  kind: of its device.  groups: its process groups.  clocks: None where all ranks read one."""

    groups: Groups
    clocks: Clocks | None = None

    def __init__(self, rank: int, settings: Settings) -> None:
        self.rank, self.settings = rank, settings
        torch = self._torch = require_torch("%%ranks")
        _reseed(torch)
        self.local_rank = int(os.environ["LOCAL_RANK"])
        here = int(os.environ["LOCAL_WORLD_SIZE"])
        torch.set_num_threads(
            max(1, settings.threads // settings.world if settings.threads else (os.cpu_count() or 1) // here)
        )
        self.kind = _kind(torch, settings)
        self.store: Any = None

    def listen(self) -> int:
        """Rank 0: open the store, on the address that the others know and on no other, and give its port."""
        dist = importlib.import_module("torch.distributed")

        # by default the store listens on every interface, without authentication
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind((self.settings.address, 0))
        listener.listen(self.settings.world)
        port = int(listener.getsockname()[1])
        self.store = dist.TCPStore(
            self.settings.address, port, self.settings.world, True, wait_for_workers=False,
            timeout=self._connect_within(), master_listen_fd=listener.detach(),
        )  # fmt: skip
        return port

    def connect(self, port: int) -> None:
        """Meet the others: store, process group, device."""
        dist = importlib.import_module("torch.distributed")

        settings = self.settings
        if self.store is None:
            self.store = dist.TCPStore(settings.address, port, settings.world, False, timeout=self._connect_within())
        os.environ["MASTER_PORT"] = str(port)
        show_key_waits()
        if self.kind == "cuda":
            self._torch.cuda.set_device(self.local_rank)
        choose_device(self.kind, self.local_rank if self.kind == "cuda" else 0)
        if settings.clock:
            device(clock=settings.clock)
        self.groups = groups_for(self.kind, settings.backend, settings.operation_s)
        self.groups.make(self.store, self.rank, settings.world)
        if settings.apart:
            self.clocks = Clocks(self.rank, settings.address, self.store)

    @property
    def destroyed(self) -> bool:
        """Whether a cell has destroyed the default group."""
        return not importlib.import_module("torch.distributed").is_initialized()

    @property
    def device_busy(self) -> bool:
        """Whether the device has work queued; asked from the service's thread."""
        if not active_backends():
            return False
        if self.kind == "cuda":
            return not self._torch.cuda.current_stream().query()
        return any(each.in_flight for each in sim.devices_in_use())

    def _connect_within(self) -> dt.timedelta:
        return dt.timedelta(seconds=self.settings.connect_s)


def _kind(torch: Any, settings: Settings) -> str:
    """cuda where every rank gets one of its own; else the simulated device."""
    n_cuda, here = torch.cuda.device_count(), int(os.environ["LOCAL_WORLD_SIZE"])  # ranks that share these devices
    if settings.device == "cuda" and n_cuda < here:
        message = f"{here} ranks on CUDA need as many devices, torch sees {n_cuda}"
        raise DeviceError(message, hint=f"%%ranks -n {n_cuda}" if n_cuda else "%%ranks --device sim")
    if settings.device == "auto":
        return "cuda" if n_cuda >= here else "sim"
    return settings.device


def _reseed(torch: Any) -> None:
    """Forked ranks share random states; ranks that torchrun starts do not. Python's own is renewed by the fork."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(int.from_bytes(os.urandom(4), "little"))
    torch.manual_seed(int.from_bytes(os.urandom(7), "little"))


def pickled(value: Any) -> bytes:
    """A value as another process can read it: tensors are on the CPU there."""
    torch = require_torch("%%ranks")

    class ToHost(pickle.Pickler):
        def reducer_override(self, value: Any) -> Any:
            on_device = isinstance(value, torch.Tensor) and value.device.type != "cpu"
            return value.detach().cpu().__reduce_ex__(pickle.HIGHEST_PROTOCOL) if on_device else NotImplemented

    written = io.BytesIO()
    ToHost(written, pickle.HIGHEST_PROTOCOL).dump(value)
    return written.getvalue()


def wait_until(at_ns: int) -> None:
    """Come back at an instant of perf_counter, which all processes of a machine share on Linux and macOS."""
    while (left_ns := at_ns - time.perf_counter_ns()) > 0:
        time.sleep(max(0.0, (left_ns - 200_000) / 1e9))
