"""%trace FILE|FOLDER…: what does this saved trace say?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perfmagic.api import open_trace, rank_findings
from perfmagic.errors import OptionError, TraceError
from perfmagic.files import file_path
from perfmagic.magics.options import Parser, add_name_option
from perfmagic.magics.run import bind
from perfmagic.results import TimelineResult
from perfmagic.show import show
from perfmagic.trace.formats.sources import trace_files


def parser() -> Parser:
    """The options of %trace."""
    made = Parser("%trace", "What saved Kineto traces say (Chrome JSON, gzipped or not).", form="FILE|FOLDER…")
    add_name_option(made)
    made.add_argument(
        "--comm-names", metavar="REGEX", help="kernels that count as communication, instead of the default rule"
    )
    made.add_argument("words", nargs="*", metavar="FILE|FOLDER")
    return made


def run(shell: Any, line: str) -> TimelineResult | list[TimelineResult] | None:
    """Open and show each file, and what several ranks say together; gives the result, or a list of them.

    Where some cannot be read the others are shown and bound, and then the first error is raised.
    """
    options = parser().split_words(line)
    if options.help:
        print(parser().format_help())
        return None
    results: list[TimelineResult] = []
    refused: list[TraceError] = []
    paths = _files(options.words, refused)
    one_alone = len(paths) == 1
    for path in paths:
        try:
            results.append(open_trace(path, comm_names=options.comm_names))
        except TraceError as error:  # noqa: PERF203 - one bad file must not cost the others
            refused.append(error)
        else:
            if not one_alone:
                rank = results[-1].trace.meta.rank
                print(path.name if rank is None else f"rank {rank}: {path.name}")
            show(results[-1])
    found = results[0] if len(results) == 1 else results
    if results:
        bind(shell, options.name, found)
    for finding in rank_findings(results):
        print(finding.sentence)
    told = {problem.hint for problem in refused[:1]}  # what to do is said once, also for a folder of foreign files
    for problem in refused[1:]:
        print(problem.message if problem.hint in told else problem)
        told.add(problem.hint)
    if refused:
        raise refused[0]
    return found


def _files(words: list[str], refused: list[TraceError]) -> list[Path]:
    """The files of all words; what is wrong with a folder is added to refused."""
    files = []
    for word in _paths(words):
        try:
            files += trace_files(word)
        except TraceError as error:  # noqa: PERF203 - one empty folder must not cost the others
            refused.append(error)
    return files


def _paths(words: list[str]) -> list[Path]:
    """The paths of the words; one existing file's name may hold spaces."""
    if not words:
        raise OptionError("%trace: no file given", hint="%trace run.pt.trace.json.gz")
    whole = " ".join(words)
    return [file_path(word) for word in ([whole] if file_path(whole).exists() else words)]
