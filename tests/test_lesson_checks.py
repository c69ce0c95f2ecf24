"""What the checks of the exercises of lessons say of right answers, and of wrong ones that people give."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perfmagic

DEMOS = Path(__file__).resolve().parents[1] / "demos"
KEPT = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.Assign)
LESSON = DEMOS / "02_automatic_parallelism.ipynb"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not DEMOS.is_dir(), reason="needs the clone's demos")]


def definitions(lesson: Path) -> dict[str, Any]:
    """What cells of a lesson import, define and assign; nothing else of them runs."""
    names: dict[str, Any] = {}
    for number, cell in enumerate(json.loads(lesson.read_text("utf-8"))["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] != "code" or source.startswith("%%"):
            continue
        tree = ast.parse(source.replace("%load_ext perfmagic\n", ""))
        tree.body = [node for node in tree.body if isinstance(node, KEPT)]
        exec(compile(tree, f"{lesson.name}[{number}]", "exec"), names)
    return names


@pytest.fixture(scope="module")
def lesson() -> Iterator[dict[str, Any]]:
    yield definitions(LESSON)
    perfmagic.device("sim", clock="real")


def says(lesson: dict[str, Any], check: str, pace: str, answer: str) -> str:
    """What a check says of an answer: its body defines `answer` among the lesson's names."""
    if pace:
        lesson["pace"](pace)
    names = lesson.copy()
    exec(answer, names)  # as a learner would type it
    return str(lesson["check"](lesson[check](names["answer"])))


SUMS = "def answer(xs):\n"
RULE = "def answer(n, product_s, copy_s):\n    return "
FETCH = """
def answer(loader):
    main, batches = module.current_stream(devs[0]), iter(loader)
    def fetch():
        batch = next(batches, None)
        if batch is not None:
            with module.stream(copies):
                return batch.to(devs[0], non_blocking=True)
    coming = fetch()
    while coming is not None:
        {first}
        current, coming = coming, fetch()
        {then}
        yield current
        {last}
"""
SYNCHRONIZED = """
def answer(loader):
    for batch in loader:
        with module.stream(copies):
            current = batch.to(devs[0], non_blocking=True)
        {wait}
        yield current
"""
CHAINS = """
def answer():
    main, ends = module.current_stream(devs[0]), []
    for stream in streams:
        {first}
        with module.stream(stream):
            ends.append(chain())
    for stream in streams:
        {last}
    return sum(ends)
"""
MEANS = """
@torch.no_grad()
def answer(batches):
    q = []
    for b in batches:
        {mean}
    return {last}
"""
SEND = """
def answer():
    sent, handles = {{}}, []
    def send(p):
        {first}
        with module.stream(sender):
            sent[p] = p.grad.to("cpu", non_blocking=True)
    for p in stack.parameters():
        handles.append(p.register_post_accumulate_grad_hook(send))
    stack.zero_grad()
    stack(batch).sum().backward()
    {then}
    for handle in handles:
        handle.remove()
    return {last}
"""
BOTH = """
def answer():
    main, side = module.current_stream(devs[0]), streams[0]
    p = x.mm(x)
    {first}
    with module.stream(side):
        q = p.mm(p)
    {then}
    return {last}
"""
PRODUCTS, FEED, MANY = "matmul=4ms, copy=500MB/s", "matmul=16ms, copy=125MB/s", "matmul=4ms"
NETWORK, BACKWARD = "matmul=10ms, copy=500MB/s", "matmul=10ms, copy=125MB/s"
ANSWERS = [
    # exercise 1
    ("is_parallel", PRODUCTS, SUMS + "    q = [run(x)[-1].sum() for x in xs]\n    return [v.item() for v in q]",
     "right"),
    ("is_parallel", PRODUCTS, SUMS + "    return [run(x)[-1].sum().item() for x in xs]", "take turns"),
    ("is_parallel", PRODUCTS, SUMS + "    return [x.mm(x).sum().item() for x in xs]", "fewer than fifty"),
    ("is_parallel", PRODUCTS, SUMS + "    return [run(xs[0])[-1].sum().item(), xs[1].mm(xs[1]).sum().item()]",
     "fewer than fifty"),
    ("is_parallel", PRODUCTS, SUMS + "    return [run(x)[0].mean().item() for x in xs]", "not the sums"),
    ("is_parallel", PRODUCTS, SUMS + "    q = [run(x)[-1].sum() for x in xs]\n    return tuple(float(v) for v in q)",
     "right"),
    ("is_parallel", PRODUCTS, SUMS + "    return [run(x)[-1].sum() for x in xs]", "not a list of Python numbers"),
    ("is_parallel", PRODUCTS, SUMS + "    return [run(x)[-1].sum().cpu() for x in xs]", "not a list of Python numbers"),
    ("is_parallel", PRODUCTS, SUMS + "    return print()", "not a list of Python numbers"),
    ("is_parallel", PRODUCTS, SUMS + "    one_by_one(xs)\n    return [x.mm(x).sum().item() for x in xs]", "take turns"),
    # exercise 2
    ("fits", "", RULE + "n * (product_s + copy_s), n * max(product_s, copy_s) + min(product_s, copy_s)", "right"),
    ("fits", "", RULE + "n * product_s, n * product_s", "in turn is wrong"),
    ("fits", "", RULE + "n * (product_s + copy_s), n * product_s", "beside is wrong"),
    ("fits", "", RULE + "n * (product_s + copy_s), n * max(product_s, copy_s)", "beside is wrong"),
    ("fits", "", RULE + "n * (product_s + copy_s), n * product_s + copy_s", "beside is wrong"),
    # exercise 3
    ("hides_copies", FEED, FETCH.format(first="main.wait_stream(copies)", then="", last="current.record_stream(main)"),
     "right"),
    ("hides_copies", FEED, FETCH.format(first="", then="", last=""), "does not wait for its copy"),
    ("hides_copies", FEED, FETCH.format(first="", then="copies.synchronize()", last=""), "Python waits"),
    ("hides_copies", FEED, FETCH.format(first="copies.wait_stream(main)", then="", last=""),
     "does not wait for its copy"),
    ("hides_copies", FEED, "answer = on_device", "do not overlap with"),
    ("hides_copies", FEED, "def answer(loader):\n    yield from list(on_device(loader))[:-1]", "not the batches"),
    ("hides_copies", FEED, SYNCHRONIZED.format(wait="copies.synchronize()"), "Python waits"),
    ("hides_copies", FEED, SYNCHRONIZED.format(wait="copies.record_event().synchronize()"), "Python waits"),
    ("hides_copies", FEED, FETCH.format(first="main.wait_event(copies.record_event())", then="", last=""), "right"),
    # exercise 4
    ("is_spread", MANY, CHAINS.format(first="stream.wait_stream(main)", last="main.wait_stream(stream)"), "right"),
    ("is_spread", MANY, CHAINS.format(first="stream.wait_stream(main)", last="pass"), "does not wait for what it uses"),
    ("is_spread", MANY, CHAINS.format(first="stream.wait_stream(main)", last="main.wait_stream(streams[0])"),
     "does not wait for what it uses"),
    ("is_spread", MANY, CHAINS.format(first="pass", last="main.wait_stream(stream)"),
     "does not wait for what it uses"),
    ("is_spread", MANY, CHAINS.format(first="perfmagic.synchronize()", last="main.wait_stream(stream)"),
     "Python waits"),
    ("is_spread", MANY, CHAINS.format(first="stream.wait_stream(main)", last="perfmagic.synchronize()"),
     "Python waits"),
    ("is_spread", MANY, CHAINS.format(first="stream.wait_event(main.record_event())",
     last="main.wait_event(stream.record_event())"), "right"),
    ("is_spread", MANY, "def answer():\n    return sum(chain() for _ in range(4))", "side by side"),
    ("is_spread", MANY, "def answer():\n    return 4 * start", "not twenty products"),
    # exercise 5
    ("is_pipelined", NETWORK, MEANS.format(mean="q.append(forward(b).mean())", last="[v.item() for v in q]"), "right"),
    ("is_pipelined", NETWORK, MEANS.format(mean="q.append(forward(b).mean())", last="tuple(v.item() for v in q)"),
     "right"),
    ("is_pipelined", NETWORK, MEANS.format(mean="q.append(forward(b).mean())", last="q"),
     "not a list of Python numbers"),
    ("is_pipelined", NETWORK, MEANS.format(mean="q.append(forward(b).mean().item())", last="q"), "take turns"),
    ("is_pipelined", NETWORK, MEANS.format(mean="q.append(forward(b).sum())", last="[v.item() for v in q[:5]]"),
     "not the means"),
    ("is_pipelined", NETWORK, MEANS.format(
        mean="q.append(forward(b).mean()); perfmagic.synchronize()", last="[v.item() for v in q]"), "take turns"),
    # exercise 6
    ("is_sent_early", BACKWARD, SEND.format(first="sender.wait_stream(module.current_stream(devs[0]))", then="",
     last="[sent[p] for p in stack.parameters()]"), "right"),
    ("is_sent_early", BACKWARD, SEND.format(first="", then="", last="[sent[p] for p in stack.parameters()]"),
     "before it is there"),
    ("is_sent_early", BACKWARD, SEND.format(first="sender.wait_stream(module.current_stream(devs[0]))", then="",
     last="[*sent.values()]"), "not the gradients"),
    ("is_sent_early", BACKWARD, SEND.format(first="sender = module.current_stream(devs[0])", then="",
     last="[sent[p] for p in stack.parameters()]"), "do not overlap with"),
    ("is_sent_early", BACKWARD, "def answer():\n    stack.zero_grad()\n    return backward_then_send()",
     "do not overlap with"),
    # exercise 7
    ("is_ordered", NETWORK, BOTH.format(first="side.wait_stream(main)", then="main.wait_stream(side)", last="q + p"),
     "right"),
    ("is_ordered", NETWORK, BOTH.format(first="side.wait_stream(main)", then="", last="q + p"), "wait is missing"),
    ("is_ordered", NETWORK, BOTH.format(first="", then="main.wait_stream(side)", last="q + p"), "wait is missing"),
    ("is_ordered", NETWORK, BOTH.format(first="main.wait_stream(side)", then="side.wait_stream(main)", last="q + p"),
     "wait is missing"),
    ("is_ordered", NETWORK, BOTH.format(first="main.synchronize()", then="side.synchronize()", last="q + p"),
     "do not wait for each other"),
    ("is_ordered", NETWORK, "def answer():\n    p = x.mm(x)\n    return p.mm(p) + p", "one stream"),
    ("is_ordered", NETWORK, BOTH.format(first="side.wait_stream(main)", then="main.wait_stream(side)", last="q"),
     "not q plus p"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "pace", "answer", "words"), ANSWERS)
def test_a_check_takes_the_right_answer_and_says_what_is_wrong_with_others(
    lesson: dict[str, Any], check: str, pace: str, answer: str, words: str
) -> None:
    said = says(lesson, check, pace, answer)
    assert words in said
    assert said == "right" or said.startswith("not yet: ")
