"""%%ranks --sweep n=1,2,4: this cell on several numbers of ranks; how well do more of them pay off?"""

from __future__ import annotations

import argparse
from typing import Any

from perfmagic.errors import OptionError
from perfmagic.files import file_path
from perfmagic.magics.running.progress import Progress
from perfmagic.magics.running.run import bind
from perfmagic.rank_sessions import LOCAL
from perfmagic.rank_sweeps import RUNS, WARMUP, Asked, swept
from perfmagic.show import keep_quiet, show


def run(shell: Any, options: argparse.Namespace, setup: str, source: str) -> None:
    """Run the cell on each number of ranks, show what that says, then raise what ended it early."""
    __tracebackhide__ = True
    others = {
        "-n": options.n is not None,
        "--plain": options.plain,
        "--setup": options.setup,
        "--on": options.on is not None,
        "--lines": options.lines is not None,
    }
    if wrong := next((name for name, given in others.items() if given), ""):
        words = "is not measured with it" if wrong == "--lines" else "records all ranks"
        raise OptionError(f"%%ranks --sweep {wrong}: a sweep {words}", hint=f"leave {wrong} out")
    if options.cluster not in ("", LOCAL):
        words = f"%%ranks --sweep --cluster {options.cluster}: a sweep starts processes of this machine"
        raise OptionError(words, hint="run the cell with -n and --cluster for each number of ranks")
    if options.sweep.name != "n":
        raise OptionError(
            f"%%ranks --sweep {options.sweep.name}={options.sweep.text}: the number of ranks is called n",
            hint="%%ranks --sweep n=1,2,4; set-up code behind it may use world_size",
        )
    asked = Asked(
        source=source,
        setup="\n" * (len(source) - len(source.lstrip("\n"))) + setup,  # on the magic's line, as the editor counts
        scaling="strong" if options.strong else "weak",
        device=options.device,
        backend=options.backend,
        runs=RUNS if options.r is None else options.r,
        warmup=WARMUP if options.warmup is None else options.warmup,
        record={"memory": options.memory, "shapes": options.shapes},
    )
    progress = Progress(shell, "%%ranks --sweep", quiet=options.quiet)
    found, error = swept(asked, options.sweep.values(shell.user_ns), lambda words: progress(lambda: words))
    if found is not None:
        bind(shell, options.name, found)
        if options.quiet:
            keep_quiet(found)
        else:
            show(found, replaces=progress.display_id)
        if options.save:
            found.save(file_path(options.save))
    if error is not None:
        raise error
