"""A recording gives everything back, however its beginning and its end went."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="there is no recording of devices without torch")

import perfmagic  # noqa: E402 - after the skip
from perfmagic import sim  # noqa: E402
from perfmagic.base.errors import CaptureError  # noqa: E402
from perfmagic.capture.devices import torch_private  # noqa: E402
from perfmagic.capture.recording import recorder as module  # noqa: E402
from perfmagic.capture.recording.recorder import Recorder  # noqa: E402

from torch.autograd import profiler  # noqa: E402  isort: skip


def held() -> dict[str, Any]:
    """What a recording may hold."""
    return {
        "wrapped": profiler.profile._prepare_trace,
        "profiling": profiler._is_profiler_enabled,
        "sim log": (sim.log().depth, sim.log().recording),
        "guards": [t.name for t in threading.enumerate() if t.name == "perfmagic memory guard"],
    }


@pytest.fixture(autouse=True)
def _nothing_is_held() -> Iterator[None]:
    before = held()
    yield
    assert held() == before


@pytest.fixture(params=["cpu", "sim"])
def device(request: pytest.FixtureRequest) -> str:
    perfmagic.device("sim")
    return str(request.param)


def test_a_recording_holds_what_it_needs_until_it_stops(device: str) -> None:
    before = held()
    recorder = Recorder(device=device)
    recorder.start()
    changed = {key for key, value in held().items() if value != before[key]}
    assert changed == ({"sim log"} if device == "sim" else {"wrapped", "profiling", "guards"})
    recorder.stop()
    assert held() == before


def test_a_recording_that_is_given_back_has_no_trace_to_give_and_needs_none(device: str) -> None:
    recorder = Recorder(device=device)
    recorder.give_back()  # before it began
    recorder.start()
    recorder.give_back()
    recorder.give_back()


def test_stopping_and_giving_back_agree(device: str) -> None:
    recorder = Recorder(device=device)
    recorder.start()
    trace = recorder.stop()
    recorder.give_back()
    assert trace.meta.end_ns >= 0


@pytest.mark.parametrize("part", ["_profile", "_others", "_guard"])
def test_an_interrupt_at_the_beginning_gives_back_what_was_taken(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from perfmagic.capture.recording.session import Session

    real = Session.open

    def interrupted(self: Any, owner: Any) -> None:
        acquire = getattr(self, part).acquire
        monkeypatch.setattr(getattr(self, part), "acquire", lambda: (acquire(), raise_interrupt()))
        real(self, owner)

    monkeypatch.setattr(Session, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Recorder(device="cpu").start()


def raise_interrupt() -> None:
    raise KeyboardInterrupt


def test_an_interrupt_while_waiting_for_the_devices_ends_the_recording(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hangs:
        kind = "hangs"

        def synchronize(self) -> None:
            raise KeyboardInterrupt

    recorder = Recorder(device=device)
    recorder.start()
    monkeypatch.setattr(module, "active_backends", lambda: (Hangs(),))
    with pytest.raises(KeyboardInterrupt):
        recorder.stop()


def test_a_refused_recording_leaves_the_other_profiler_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_private, "profiler_enabled", lambda: True)
    with pytest.raises(CaptureError, match="another profiler is active"):
        Recorder(device="cpu").start()


def test_an_outer_recording_goes_on_when_an_inner_one_ends() -> None:
    x = torch.ones(4, device=perfmagic.device("sim"))
    outer, inner = Recorder(device="sim"), Recorder(device="sim")
    outer.start()
    x + 1
    inner.start()
    x + 2
    inner_trace = inner.stop()
    x + 3
    assert (len(outer.stop().ops), len(inner_trace.ops)) == (3, 1)


def test_a_log_forgets_only_the_recording_that_stops() -> None:
    from perfmagic.sim.log import SimLog

    log = SimLog()
    log.start("a")
    log.stop("b")
    assert (log.depth, log.recording) == (1, True)
    log.stop("a")
    log.stop("a")
    assert (log.depth, log.recording) == (0, False)


@pytest.mark.parametrize(
    ("session_ns", "sim_ns", "at_ns", "words"),
    [
        (None, None, None, ""),
        (50, None, 1050, "the profiler's reason"),
        (None, 1070, 1070, "the simulated device's log holds"),
        (50, 1070, 1050, "the profiler's reason"),
        (90, 1070, 1070, "the simulated device's log holds"),
    ],
)
def test_the_reason_of_an_incomplete_recording_is_that_of_what_ended_first(
    session_ns: int | None, sim_ns: int | None, at_ns: int | None, words: str
) -> None:
    recorder = Recorder()
    recorder._offset_ns = 1000
    notes = ["the profiler's reason"] if session_ns is not None else []
    recorder._session = SimpleNamespace(ended_ns=session_ns, notes=notes)
    limit = recorder._limit(SimpleNamespace(full_ns=sim_ns, limit_ops=300_000))
    if at_ns is None:
        assert limit is None
    else:
        assert limit.at_ns == at_ns
        assert limit.reason.startswith(words)


@pytest.mark.parametrize("memory", [False, True])
def test_a_file_is_the_same_where_torch_makes_no_objects_for_python(memory: bool, tmp_path: Path) -> None:
    def kinds(recording: Any) -> Counter[tuple[str, ...]]:
        with recording:
            weight = torch.ones(3, 3, requires_grad=True)
            with torch.profiler.record_function("step"):
                (weight @ weight).relu().sum().backward()
        torch_private.save_profile(recording, str(tmp_path / "trace.json"))
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        return Counter((*map(str, map(event.get, ("ph", "cat", "name"))), *event.get("args", ())) for event in events)

    kinds(profiler.profile(profile_memory=memory))  # the first run allocates more
    whole = kinds(profiler.profile(profile_memory=memory))
    assert kinds(torch_private.open_profile(cuda=False, memory=memory)) == whole


def test_nothing_is_recorded_any_more_while_torch_ends_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch takes apart what threads write into: one that still did corrupted the heap, on busy cores."""
    x, disable = torch.ones(4), profiler._disable_profiler

    def disabled() -> Any:
        worker = threading.Thread(target=torch.cumsum, args=(x, 0))
        worker.start()
        worker.join()
        return disable()

    monkeypatch.setattr(profiler, "_disable_profiler", disabled)
    recorder = Recorder(device="cpu")
    recorder.start()
    torch.neg(x)
    trace = recorder.stop()
    assert {"aten::neg", "aten::cumsum"} & {trace.names[i] for i in trace.host_ops.name} == {"aten::neg"}
