"""Key-value stores on a virtual clock: callers see their own keys only, and get what another set once it has come."""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch", reason="the stores are torch's")

import torch.distributed as dist

from perfmagic.base.clock import HOST, keep_virtual_time
from perfmagic.sim.groups import stores

MS = 10**6


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A store whose messages take 5 ms; its calls are timed, and torch's classes left as they are."""
    monkeypatch.setattr(stores, "_message_ns", lambda _value: 5 * MS)
    kind = type("Timed", (dist.HashStore,), {})
    stores.keep_times(kind)
    keep_virtual_time(True)
    yield kind()
    keep_virtual_time(False)


def test_callers_see_their_own_keys_only(store: Any) -> None:
    store.set("a", "1")
    store.add("b", 2)
    assert (store.num_keys(), sorted(store.list_keys())) == (2, ["a", "b"])
    assert (store.delete_key("a"), store.delete_key("a")) == (True, False)
    assert (store.num_keys(), store.list_keys()) == (1, ["b"])


def test_a_deleted_key_leaves_no_instant(store: Any) -> None:
    began_ns = HOST.read_ns()
    for name in ("kept", "deleted"):
        store.set(name, "1")
    store.delete_key("deleted")
    store.add("deleted", 1)
    assert HOST.read_ns() == began_ns
    store.add("kept", 1)
    assert HOST.read_ns() == began_ns + 5 * MS


def test_what_is_popped_has_come(store: Any) -> None:
    began_ns = HOST.read_ns()
    store.queue_push("jobs", "first")
    HOST.advance(20 * MS)
    store.queue_push("jobs", "second")
    assert store.queue_pop("jobs") == b"first"
    assert HOST.read_ns() == began_ns + 20 * MS
    assert store.queue_pop("jobs", block=False) == b"second"
    assert HOST.read_ns() == began_ns + 25 * MS
    with pytest.raises(dist.QueueEmptyError):
        store.queue_pop("jobs", block=False)


@pytest.mark.usefixtures("store")
def test_keys_without_values_are_refused_by_torch() -> None:
    kind: Any = type("TimedTcp", (dist.TCPStore,), {})
    stores.keep_times(kind)
    with pytest.raises(dist.DistStoreError, match="same size"):
        kind("localhost", 0, is_master=True, wait_for_workers=False).multi_set(["x", "y"], ["1"])
