"""Random programs, followed by a watch and by a walk over the frames: a script without torch or numpy.

    python tests/capture/watch/random_programs.py monitoring|settrace

prints a JSON object: how many programs and launches there were, and each seed at which the two disagree.
"""

import json
import random
import sys
from typing import Any

from perfmagic.capture.watch.events import Events
from perfmagic.capture.watch.monitoring import Monitoring
from perfmagic.capture.watch.paths import NOWHERE, paths_of
from perfmagic.capture.watch.settrace import Settrace
from tests.capture.watch.generated import program
from tests.capture.watch.programs import Truth, compiled, is_of_cell, left_behind

N_PROGRAMS = 150
MOST_LAUNCHES = 400


class Stop(BaseException):
    """A program has launched enough."""


class Launches(Truth):
    """The frames at each launch, up to a number of launches."""

    def launch(self) -> None:
        """Note the frames of the program's that called this."""
        if len(self.launches) >= MOST_LAUNCHES:
            raise Stop
        self.note(sys._getframe(1))


def names_of(text: str, truth: Launches) -> dict[str, Any]:
    """What a program's cell runs in."""
    names: dict[str, Any] = {"launch": truth.launch, "Stop": Stop, "__name__": "__main__"}
    exec(compiled("functions", text), names)
    return names


def disagreements(kind: str, seed: int) -> tuple[int, list[Any]]:
    """How often a program launches, and the launches whose chain the watch has otherwise."""
    functions, cell = program(random.Random(seed), threads=True)
    truth, events = Launches(), Events()
    names, code = names_of(functions, truth), compiled("cell", cell)
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
        whole = chain[-1][0] == "<module>"  # below a thread's function stands the line of the cell that waits for it
        if seen[: len(chain)] != chain or (whole and len(seen) != len(chain)):
            wrong.append([chain, seen])
    return len(truth.launches), wrong


def main() -> None:
    launches, wrong = 0, {}
    for seed in range(N_PROGRAMS):
        n, differences = disagreements(sys.argv[1], seed)
        launches += n
        if differences:
            wrong[seed] = differences[:1]
    print(json.dumps({"launches": launches, "wrong": wrong, "left": left_behind(sys.argv[1])}))


if __name__ == "__main__":
    main()
