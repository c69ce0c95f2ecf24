# ruff: noqa: E501 - a program a line reads better than one a page
"""Cells that launch from everywhere, followed by a watch and by a walk over the frames: a script without torch or numpy.

    python tests/capture/watch/programs.py monitoring|settrace

prints a JSON object: for each program the number of launches, and those at which the two disagree.
"""

import json
import linecache
import sys
import textwrap
import threading
import time
from types import CodeType, FrameType
from typing import Any

from perfmagic.capture.watch.events import Events
from perfmagic.capture.watch.monitoring import Monitoring
from perfmagic.capture.watch.paths import NOWHERE, paths_of
from perfmagic.capture.watch.settrace import Settrace
from perfmagic.capture.watch.user_code import CELL_FILES

FOLDED = ("<listcomp>", "<setcomp>", "<dictcomp>")  # their line is the statement's

EARLIER = """
import asyncio, contextlib, functools, threading

def plain(n):
    a = n + 1
    launch()
    return a

def caller(n):
    if n:
        return plain(n)
    launch()

class Net:
    def __init__(self):
        self.n = 3
    @property
    def size(self):
        launch()
        return self.n
    def __call__(self, x):
        return self.forward(x)
    def forward(self, x):
        launch()
        return plain(x)
    def __getattr__(self, name):
        launch()
        raise AttributeError(name)
    def __add__(self, other):
        launch()
        return other

def decorated(function):
    @functools.wraps(function)
    def around(*args):
        launch()
        return function(*args)
    return around

@decorated
def wrapped(n):
    launch()
    return n

@contextlib.contextmanager
def managed():
    launch()
    try:
        yield 1
    finally:
        launch()

def numbers(n):
    try:
        for i in range(n):
            launch()
            yield i
    finally:
        launch()

def listening():
    try:
        while True:
            yield launch()
    except KeyError:
        launch()
        yield None

def delegating(n):
    launch()
    yield from numbers(n)
    launch()

def countdown(n):
    launch()
    try:
        if n == 0:
            raise ValueError(n)
        return countdown(n - 1)
    finally:
        launch()

async def waits(n):
    launch()
    await asyncio.sleep(0)
    launch()
    return n

async def counted(n):
    for i in range(n):
        launch()
        yield i
        await asyncio.sleep(0)

def within(n):
    def inner(k):
        launch()
        return k
    return inner(n) + inner(n + 1)
"""

PROGRAMS = {
    "a loop": "for i in range(3):\n    launch()\n    x = i\nlaunch()",
    "functions": "plain(1); caller(0)\nfor i in range(2):\n    caller(i)",
    "branches": "if caller(1):\n    launch()\nelse:\n    plain(0)\nwhile True:\n    launch()\n    break",
    "comprehensions": "a = [plain(i) for i in range(2)]\nb = {i: plain(i) for i in range(2)}\nc = {launch() for _ in range(2)}",
    "a generator expression": "sum(plain(i) for i in range(3))",
    "lambdas": "f = lambda n: plain(n)\nf(1)\nlist(map(lambda n: launch(), range(2)))\nsorted([2, 1], key=lambda k: caller(k) or k)",
    "methods": "net = Net()\nnet(1)\nnet.size\nnet + 1\nhasattr(net, 'nope')",
    "decorators": "wrapped(1)\n@decorated\ndef own(n):\n    launch()\nown(2)",
    "context managers": "with managed() as m:\n    launch()\nlaunch()\nwith contextlib.suppress(ValueError):\n    with managed():\n        raise ValueError",
    "generators": "for i in numbers(2):\n    launch()\nlist(delegating(2))\ng = numbers(5)\nnext(g)\ng.close()\nlaunch()",
    "a generator thrown into": "g = listening()\nnext(g)\ng.throw(KeyError('x'))\nlaunch()\ng.close()\nlaunch()",
    "recursion and exceptions": "try:\n    countdown(3)\nexcept ValueError:\n    launch()\nfinally:\n    launch()\nlaunch()",
    "a class body": "class A:\n    launch()\n    x = plain(1)\nlaunch()",
    "a function in a function": "within(1)\nlaunch()",
    "several lines": "plain(\n    plain(1)\n    + plain(2),\n)\nlaunch()",
    "two statements on a line": "plain(1); launch(); plain(2)",
    "a thread": "t = threading.Thread(target=caller, args=(1,))\nt.start()\nt.join()\nlaunch()",
    "a library that calls back": "functools.reduce(lambda a, b: plain(a) + b, [1, 2, 3])\nmax([1, 2], key=caller)",
    "asyncio": "async def main():\n    launch()\n    await asyncio.gather(waits(1), waits(2))\n    launch()\n    async for i in counted(2):\n        launch()\nasyncio.run(main())\nlaunch()",
    "text that is run": "exec('launch()')\nlaunch()",
    "an import": "import colorsys\nlaunch()",
}


def compiled(name: str, text: str) -> CodeType:
    """A cell: code with a file name as IPython's, and its text at hand."""
    filename = f"{CELL_FILES}-{name.replace(' ', '-')}>"
    linecache.cache[filename] = len(text), None, text.splitlines(keepends=True), filename
    return compile(text, filename, "exec", dont_inherit=True)


def is_of_cell(code: CodeType) -> bool:
    """This script is no part of the cells."""
    return code.co_filename.startswith(CELL_FILES)


class Truth:
    """The frames of the user's at each launch, the innermost first."""

    def __init__(self) -> None:
        self.launches: list[tuple[int, int, list[tuple[str, int]]]] = []

    def launch(self) -> None:
        self.note(sys._getframe(1))

    def note(self, frame: FrameType | None) -> None:
        """Note the frames of the user's from one outwards."""
        at, chain = time.perf_counter_ns(), []
        while frame is not None:
            if frame.f_code.co_filename.startswith(CELL_FILES) and frame.f_code.co_name not in FOLDED:
                chain.append((frame.f_code.co_name, frame.f_lineno))
            frame = frame.f_back
        self.launches.append((at, threading.get_native_id(), chain))


def followed_wrong(kind: str, code: CodeType, names: dict[str, Any], truth: Truth) -> list[dict[str, Any]]:
    """Each launch of a cell whose chain a watch has otherwise."""
    events = Events()
    watch = (Monitoring if kind == "monitoring" else Settrace)(events, is_of_cell, [])
    watch.acquire()
    try:
        exec(code, names)
    finally:
        watch.give_back()
    tree, marks = paths_of(events.by_thread, events.of_main)
    wrong = []
    for at, thread, chain in truth.launches:
        own, seen = marks[thread].path_at(at) if thread in marks else NOWHERE, []
        while own != NOWHERE:
            seen.append((tree.functions[tree.function[own]].co_name, tree.line[own]))
            own = tree.parent[own]
        whole = bool(chain) and chain[-1][0] == "<module>"
        # a thread and a task begin without a caller: the watch adds the line of the cell that waits for them
        if seen[: len(chain)] != chain or (whole and len(seen) != len(chain)):
            wrong.append({"truth": chain, "watch": seen})
    return wrong


def disagreements(kind: str, name: str, text: str) -> dict[str, Any]:
    """How often a program launches, and each launch whose chain the watch has otherwise."""
    truth = Truth()
    names: dict[str, Any] = {"launch": truth.launch, "__name__": "__main__"}
    exec(compiled("earlier", EARLIER), names)
    wrong = followed_wrong(kind, compiled(name, textwrap.dedent(text)), names, truth)
    return {"launches": len(truth.launches), "wrong": wrong, "left": left_behind(kind)}


def left_behind(kind: str) -> list[str]:
    """What a watch has not given back."""
    if kind == "settrace":
        return ["trace function"] if sys.gettrace() is not None else []
    monitoring = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    return [f"tool {i}" for i in range(6) if monitoring.get_tool(i) == "perfmagic"]


if __name__ == "__main__":
    print(json.dumps({name: disagreements(sys.argv[1], name, text) for name, text in PROGRAMS.items()}))
