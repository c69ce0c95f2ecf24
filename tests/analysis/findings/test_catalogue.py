"""Headlines and actions: short, with every value in, and about what the finding is about."""

import re
from pathlib import Path

import pytest

from perfmagic.analysis.findings import catalogue
from perfmagic.analysis.findings.catalogue import (
    ACTION_CHARS,
    ACTIONS,
    DECIDES,
    HEADLINE_CHARS,
    HEADLINES,
    OPEN,
    WITHOUT_TIME,
    action,
    decider_key,
    decides,
    headline,
    without_time,
)
from perfmagic.analysis.findings.find import findings
from perfmagic.analysis.verdict import KINDS
from perfmagic.trace.model import Trace
from tests.analysis.findings.build import plain
from tests.trace.recorded import ALL, MORE, real_trace, recorded

VERBS = {
    "Balance",
    "Batch",
    "Call",
    "Capture",
    "Compare",
    "Copy",
    "Create",
    "Do",
    "Give",
    "Keep",
    "Leave",
    "Look",
    "Make",
    "Move",
    "Open",
    "Overlap",
    "Pad",
    "Prepare",
    "Put",
    "Queue",
    "Raise",
    "Read",
    "Recompute",
    "Record",
    "Run",
    "Set",
    "Store",
    "Synchronise",
    "Use",
}
RULES = Path(catalogue.__file__).parent
SHARED = tuple(sorted(path.name.split(".")[0] for path in MORE.glob("*.json.gz")))


def said(trace: Trace) -> dict[str, tuple[str, str]]:
    """Headline and action of each rule's first finding."""
    by_rule: dict[str, tuple[str, str]] = {}
    for finding in findings(trace):
        by_rule.setdefault(finding.rule, (plain(finding.headline), finding.action))
    return by_rule


@pytest.mark.slow
@pytest.mark.parametrize("name", dict.fromkeys([*ALL, *SHARED]))
def test_headlines_and_actions_of_recorded_traces_are_short_and_whole(name: str) -> None:
    for finding in findings(real_trace(name)):
        assert len(finding.headline) <= HEADLINE_CHARS, finding.headline
        assert len(finding.action) <= ACTION_CHARS, finding.action
        assert not re.search(r"[{}]|\bNone\b|  ", finding.headline + finding.action), finding
        assert bool(finding.headline) or not finding.action, finding.rule


def test_an_action_is_imperative_and_has_no_full_stop() -> None:
    assert {text.split()[0] for text in ACTIONS.values()} <= VERBS
    assert [text for text in (*HEADLINES.values(), *ACTIONS.values()) if text.endswith(".")] == []


def test_every_entry_is_used_by_a_rule() -> None:
    folders = (RULES, *(RULES.parent / name for name in ("ranks", "diff", "graph", "memory")))
    files = [path for folder in folders for path in folder.glob("*.py") if path.name != "catalogue.py"]
    source = "".join(path.read_text("utf-8") for path in files)
    assert [
        key
        for key in (*DECIDES, *HEADLINES, *ACTIONS)
        if key not in KINDS and f'"{key}"' not in source and f"'{key}'" not in source
    ] == []


def test_a_value_that_is_missing_is_an_error() -> None:
    assert headline("zero_grad", n="3 ops") == "Gradients are filled with zeros: 3 ops"
    assert action("wait_stream", a=1, b=2) == "Call wait_stream() on stream 1: it waits for stream 2"
    with pytest.raises(KeyError):
        headline("zero_grad")


def test_a_headline_beside_a_gain_names_no_other_time() -> None:
    assert {*WITHOUT_TIME} <= {*HEADLINES}
    assert [text for text in WITHOUT_TIME.values() if "{time}" in text] == []
    fact = headline("data_loading", time="164 ms")
    assert without_time(fact, "718 ms") == "The device waits for data to be loaded"
    assert without_time(headline("cold", time="3 s"), "1 s") == "The record is cold: a warm run would take 1 s"
    of_ranks = headline("on_ranks", ranks="every rank", fact=fact)
    assert without_time(of_ranks, "718 ms") == "On every rank: The device waits for data to be loaded"
    untimed = headline("race", a=1, b=2)
    assert without_time(untimed, "1 s") == untimed


def test_small_ops_of_an_eager_step_ask_for_a_compiler_and_of_an_old_gpu_for_graphs() -> None:
    assert said(real_trace("h100_vit"))["one_by_one"] == (
        "148 small ops, launched one by one",
        "Use torch.compile, or capture the step with CUDA graphs",
    )
    assert said(recorded("gp100_gpu_user_annotation"))["one_by_one"][1] == "Capture the step with CUDA graphs"


def test_copies_of_ddp_name_its_option() -> None:
    assert said(real_trace("a100_nccl_rank0of2"))["repeated_gap"] == (
        "DDP broadcasts the model's buffers before each forward",
        "Set DistributedDataParallel(…, broadcast_buffers=False) if ranks may differ",
    )


@pytest.mark.slow
def test_ops_between_many_waits_ask_for_a_batch_and_for_no_graph() -> None:
    text = said(real_trace("a100_segment_anything"))["one_by_one"]
    assert text[0] == "20,140 small ops, launched one by one"
    assert text[1].startswith("Batch the work: Python waits for the device")


@pytest.mark.slow
def test_a_loader_without_workers_asks_for_some() -> None:
    assert said(real_trace("v100_resnet50_workers0"))["data_loading"] == (
        "Loading data kept the device waiting for 164 ms",
        "Set DataLoader(…, num_workers=…), so that it fetches ahead",
    )


def test_a_decider_is_known_by_its_entry() -> None:
    assert {key for key, words in DECIDES.items() if words.startswith("Open")} - OPEN == {
        "ranks_cpu_unknown",
        "ranks_sampled",
    }
    assert all(DECIDES[key].startswith("Open") for key in OPEN)
    assert decider_key(decides("host-bound", share="9 %")) == "host-bound"
