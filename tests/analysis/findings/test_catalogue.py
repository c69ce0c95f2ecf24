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
    HEADLINES_WITHOUT_TIME,
    OPEN,
    action,
    decider_key,
    decides,
    headline,
    without_time,
)
from perfmagic.analysis.findings.find import findings
from perfmagic.analysis.verdict import KINDS
from tests.analysis.findings.build import first_finding, plain
from tests.trace.recorded import ALL, MORE, real_trace

VERBS = {
    *(
        "Accumulate",
        "Balance",
        "Batch",
        "Call",
        "Capture",
        "Check",
        "Compare",
        "Copy",
        "Create",
        "Do",
        "Give",
        "Keep",
        "Leave",
        "Look",
        "Make",
    ),
    *("Move", "Open", "Overlap", "Pad", "Prepare", "Put", "Queue", "Raise", "Read", "Recompute", "Record", "Run"),
    *("Set", "Store", "Synchronise", "Use"),
}
RULES = Path(catalogue.__file__).parent
SHARED = tuple(sorted(path.name.split(".")[0] for path in MORE.glob("*.json.gz")))


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
    files = [path for folder in folders for path in folder.rglob("*.py") if path.name != "catalogue.py"]
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
    assert {*HEADLINES_WITHOUT_TIME} <= {*HEADLINES}
    assert [text for text in HEADLINES_WITHOUT_TIME.values() if "{time}" in text] == []
    fact = headline("data_loading", time="164 ms")
    assert without_time(fact) == "The device waits for data to be loaded"
    assert without_time(headline("cold", time="3 s")) == "The record is cold: it includes what only first calls do"
    of_ranks = headline("on_ranks", ranks="every rank", fact=fact)
    assert without_time(of_ranks) == "On every rank: The device waits for data to be loaded"
    untimed = headline("race", a=1, b=2)
    assert without_time(untimed) == untimed


# of a trace and a rule: how the headline begins, and how the action does
TOLD = {
    ("h100_vit", "one_by_one"): ("148 small ops, launched one by one", "Use torch.compile, or capture the step with"),
    ("gp100_gpu_user_annotation", "one_by_one"): ("", "Capture the step with CUDA graphs"),  # the GPU is too old
    ("a100_segment_anything", "one_by_one"): ("20,140 small ops, launched one by one", "Batch the work: Python waits"),
    ("a100_nccl_rank0of2", "repeated_gap"): (
        "DDP broadcasts the model's buffers before each forward",
        "Set DistributedDataParallel(…, broadcast_buffers=False) if ranks may differ",
    ),
    ("v100_resnet50_workers0", "data_loading"): (
        "Loading data kept the device waiting for 164 ms",
        "Set DataLoader(…, num_workers=…), so that it fetches ahead",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rule"), TOLD)
def test_what_to_do_fits_the_recorded_trace(name: str, rule: str) -> None:
    finding = first_finding(real_trace(name), rule)
    headline, action = TOLD[name, rule]
    assert plain(finding.headline).startswith(headline)
    assert finding.action.startswith(action)


def test_a_decider_is_known_by_its_entry() -> None:
    assert {key for key, words in DECIDES.items() if words.startswith("Open")} - OPEN == {
        "ranks_cpu_unknown",
        "ranks_sampled",
    }
    assert all(DECIDES[key].startswith("Open") for key in OPEN)
    assert decider_key(decides("host-bound", share="9 %")) == "host-bound"
