"""%%ranks --sweep n=1,2,4: this cell on several numbers of ranks; how well do more of them pay off?"""

from __future__ import annotations

import argparse
from typing import Any

from perfmagic.api.options import RUNS, WARMUP
from perfmagic.api.ranks.requests import LOCAL
from perfmagic.api.ranks.sweeps import SweepPlan, run_sweep
from perfmagic.api.show import keep_quiet, show
from perfmagic.base.errors import OptionError
from perfmagic.base.files import file_path
from perfmagic.magics.running.progress import Progress
from perfmagic.magics.running.recording import bind


def run(shell: Any, options: argparse.Namespace, setup: str, source: str) -> None:
    """Run the cell on each number of ranks, show the sweep, then raise the error that ended it early."""
    __tracebackhide__ = True
    others = {
        "-n": options.n is not None,
        "--plain": options.plain,
        "--setup": options.setup,
        "--on": options.on is not None,
        "--lines": options.lines is not None,
    }
    if wrong := next((name for name, given in others.items() if given), ""):
        reason = "is not measured with it" if wrong == "--lines" else "records all ranks"
        raise OptionError(f"%%ranks --sweep {wrong}: a sweep {reason}", hint=f"leave {wrong} out")
    if options.cluster not in ("", LOCAL):
        message = f"%%ranks --sweep --cluster {options.cluster}: a sweep starts processes of this machine"
        raise OptionError(message, hint="run the cell with -n and --cluster for each number of ranks")
    if options.sweep.name != "n":
        raise OptionError(
            f"%%ranks --sweep {options.sweep.name}={options.sweep.text}: the number of ranks is called n",
            hint="%%ranks --sweep n=1,2,4; set-up code behind it may use world_size",
        )
    plan = SweepPlan(
        source=source,
        setup="\n" * (len(source) - len(source.lstrip("\n"))) + setup,  # on the magic's line, as the editor counts
        scaling="strong" if options.strong else "weak",
        device=options.device,
        backend=options.backend,
        runs=RUNS if options.runs is None else options.runs,
        warmup=WARMUP if options.warmup is None else options.warmup,
        record={"memory": options.memory, "shapes": options.shapes},
    )
    progress = Progress(shell, "%%ranks --sweep", quiet=options.quiet)
    result, error = run_sweep(plan, options.sweep.values(shell.user_ns), lambda line: progress(lambda: line))
    if result is not None:
        bind(shell, options.variable, result)
        if options.quiet:
            keep_quiet(result)
        else:
            show(result, replaces=progress.display_id)
        if options.save:
            result.save(file_path(options.save))
    if error is not None:
        raise error
