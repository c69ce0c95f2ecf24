"""What a program may ask of traces below one folder: each tool gives small JSON. A process of its own runs this."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perfmagic.base import units
from perfmagic.base.errors import OptionError, PerfmagicError, TraceError
from perfmagic.results.briefs.form import RESULT_BYTES, Brief, table, within

MOST_OPEN = 8  # the oldest is dropped
MOST_BYTES = 512_000_000  # of a trace, unpacked
MOST_FILES = 64  # of a folder
MOST_LINES = 40
MOST_US = 1e12  # eleven days
_LINE = ("function", "line", "text", "host_ns", "blocked_ns", "idle_ns", "n_launches", "device_ns")


class Tools:
    """The open results, by the name that open() was given.  root: the folder that holds all that may be read."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._open: dict[str, Any] = {}

    def open(self, name: str, path: str) -> dict[str, Any]:
        from perfmagic.api.opening import open_traces

        results = open_traces(*self._files(path), max_unpacked_bytes=MOST_BYTES)
        shown = [*([results.flight] if results.flight else []), *results.jobs, *results.alone]
        if len(shown) != 1:
            raise OptionError(f"{path} holds {len(shown)} results of several jobs", hint="open one file of it")
        self._open[name] = shown[0]
        while len(self._open) > MOST_OPEN:
            del self._open[next(iter(self._open))]
        return {"trace": name, **shown[0].brief()}

    def answers(self, trace: str) -> dict[str, Any]:
        result = self._known(trace)
        found = getattr(result, "answers", None)
        if found is None:
            return dict(result.brief())
        rows = tuple(
            {"says": answer.headline, "do": answer.action, "change": answer.what_if}
            | {f"evidence_{i}": sentence for i, sentence in enumerate(answer.evidence[:3], 1)}
            for answer in found.answers
        )
        brief = result.brief()
        shown = Brief("answers", found.decides, times=brief.get("times", ""), rows={"answers": rows})
        return within(shown, RESULT_BYTES) | {"little_gain": found.little_gain[:8], "also_seen": found.also_seen[:8]}

    def zoom(self, trace: str, start_us: float, end_us: float) -> dict[str, Any]:
        from perfmagic.trace.window import window

        result = self._one(trace)
        if not (math.isfinite(start_us) and math.isfinite(end_us) and 0 <= start_us < end_us <= MOST_US):
            raise OptionError(
                f"zoom: {start_us:g} to {end_us:g} is not a time range of a record", hint="0 ≤ start_us < end_us"
            )
        begin_ns = result.trace.meta.start_ns
        part = window(result.trace, begin_ns + round(start_us * 1000), begin_ns + round(end_us * 1000))
        return dict(type(result)(part, result.comm_names, f"{start_us:g} to {end_us:g} µs of {result.title}").brief())

    def lines(self, trace: str) -> dict[str, Any]:
        result = self._one(trace)
        rows = sorted(result.lines, key=lambda row: -max(row.host_ns, row.device_ns))
        if not rows:
            raise OptionError("this record has no lines", hint="%%timeline records those of a cell")
        shown = table(rows, _LINE, most=MOST_LINES, rough=result.trace.predicted)
        left = {"lines": len(rows) - len(shown)} if len(rows) > len(shown) else None
        says = f"{units.plural(len(rows), 'line')}, the longest first"
        brief = result.brief()
        return within(
            Brief(
                "lines",
                says,
                times=brief["times"],
                devices=tuple(brief["devices"]),
                rows={"lines": shown},
                omitted=left,
            ),
            RESULT_BYTES,
        )

    def compare(self, before: str, after: str) -> dict[str, Any]:
        from perfmagic.api.comparisons import compare_timelines

        return compare_timelines(self._known(before), self._known(after)).brief()

    def what_if(self, trace: str, changes: str) -> dict[str, Any]:
        from perfmagic.changes import written_changes

        made = written_changes(changes)
        result = self._known(trace)
        if not hasattr(result, "what_if"):
            raise OptionError("what_if: dumps of flight recorders are not replayed")
        return dict(result.what_if(*made).brief())

    def check(self, trace: str, rule: str) -> dict[str, Any]:
        from perfmagic.api.timelines import explain
        from perfmagic.results.briefs.runs import brief_of_rules

        result = self._one(trace)
        return brief_of_rules(result.trace, explain(result, rule) if rule else explain(result))

    def _files(self, path: str) -> list[Path]:
        """The files of a path, links followed. Raises OptionError for what is not below the root, or is too much."""
        from perfmagic.trace.formats.sources import trace_files, without_dumps

        asked = self._below(self._root / path, path)
        if not asked.exists():
            raise TraceError(f"there is no file {path}")
        others, dumps = without_dumps([asked])
        given = [*dumps, *(file for other in others for file in trace_files(other))]
        files = [self._below(Path(file), path) for file in given]
        if len(files) > MOST_FILES:
            raise OptionError(f"{path} has {len(files)} files, more than {MOST_FILES}", hint="open one file of it")
        large = next((file for file in files if file.exists() and file.stat().st_size > MOST_BYTES), None)
        if large is not None:
            raise OptionError(f"{large.name} is larger than {units.size(MOST_BYTES)}")
        return files

    def _below(self, file: Path, asked: str) -> Path:
        try:
            found = file.resolve()
        except (OSError, ValueError, RuntimeError):  # null characters; links in a circle
            raise OptionError(f"{asked[:80]!r} is not a path") from None
        if not found.is_relative_to(self._root):
            raise OptionError(f"{asked[:80]!r} is not below the folder that this server reads")
        return found

    def _known(self, name: str) -> Any:
        if name not in self._open:
            known = ", ".join(self._open) or "none"
            raise OptionError(
                f"no trace {name[:80]!r} is open", hint=f"open: {known}; the oldest of {MOST_OPEN} is dropped"
            )
        return self._open[name]

    def _one(self, name: str) -> Any:
        result = self._known(name)
        if not hasattr(result, "trace"):
            raise OptionError(f"{name} is several ranks", hint="open the file of one rank")
        return result


_tools: list[Tools] = []  # of this process


def begin(root: str) -> None:
    """Have this process answer about traces below a folder."""
    _tools[:] = [Tools(Path(root))]


def answer(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What a tool gives, or {"error": …}."""
    called: Callable[..., dict[str, Any]] = getattr(_tools[0], tool)
    try:
        return called(**arguments)
    except PerfmagicError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": "the trace needs more memory than there is"}
