"""Random programs, followed by a watch and by a walk over the frames: a script without torch or numpy.

    python tests/capture/watch/random_programs.py monitoring|settrace

prints a JSON object: how many programs and launches there were, and each seed at which the two disagree.
"""

import json
import random
import sys
from typing import Any

from tests.capture.watch.generated import program
from tests.capture.watch.programs import Truth, compiled, followed_wrong, left_behind

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
    truth = Launches()
    wrong = followed_wrong(kind, compiled("cell", cell), names_of(functions, truth), truth)
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
