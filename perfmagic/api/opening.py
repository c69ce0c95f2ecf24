"""The functions behind %trace: open saved traces and snapshots. They load nothing that records."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmagic.api.options import ReadOptions, keywords
from perfmagic.base.errors import OptionError, TraceError
from perfmagic.base.files import local_path
from perfmagic.base.terminal import Progress
from perfmagic.results import TimelineResult
from perfmagic.trace.formats.sources import FileRead, read_each, read_one, trace_files, without_dumps
from perfmagic.trace.kineto.file import DEFAULT_LIMIT_BYTES
from perfmagic.trace.kineto.reader import Collector
from perfmagic.trace.model import Trace
from perfmagic.trace.names import check_matches, checked_pattern

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from perfmagic.results import FlightResult, MemoryResult, Traces

ENDINGS = {"html": (".html", ".htm"), "svg": (".svg",)}  # of files that an option writes


@keywords(ReadOptions)
def open_trace(source: str | os.PathLike[str] | Any, **options: Unpack[ReadOptions]) -> TimelineResult:
    """The timeline of a saved trace, or of a finished profiler. Files are read without torch.

    source: a file, a folder that holds one, a URL of either, or a finished torch.profiler.profile. Files are Kineto's
    Chrome JSON (gzipped or not), exports of Nsight Systems, or .npz. fsspec opens URLs (s3, gs, abfs, hf, http, …).
    Raises TraceError where a file is no trace, has several processes, or is damaged beyond repair; CaptureError for a
    profiler without result; OptionError for a URL without fsspec. If comm_names match no kernel, OptionError has the
    nearest names.

    >>> t = perfmagic.open_trace("step.json.gz")
    >>> t.verdict.kind
    'device-bound'
    >>> print(t.findings[0].sentence.split(". ")[0])
    device-bound: the device was busy 96 % of its extent
    """
    comm_names = options["comm_names"]
    checked_pattern(comm_names)
    if callable(getattr(source, "export_chrome_trace", None)):  # torch's, known without torch
        from perfmagic.capture.recording.interop import profiler_trace  # files do not need capture

        trace, title = profiler_trace(source), "profiler"
    else:
        trace, title = read_one(source, options["max_unpacked_bytes"], options["storage_options"] or {})
    check_matches(comm_names, [trace])
    return TimelineResult(trace, comm_names=comm_names, title=title)


def open_snapshot(source: str | os.PathLike[str]) -> MemoryResult:
    """The memory in a snapshot of CUDA's allocator: torch.cuda.memory._dump_snapshot("snapshot.pickle").

    Of several devices the one with the highest peak; `.trace` has all. The file is read as plain data: a pickle that
    asks for code is refused. Raises TraceError for other files, OptionError for a URL.

    >>> perfmagic.open_snapshot("snapshot.pickle").at_peak()  # doctest: +SKIP
    """
    from perfmagic.results import MemoryResult
    from perfmagic.trace.formats.snapshot import read_snapshot

    return MemoryResult(read_snapshot(local_path(source)))


@keywords(ReadOptions)
def open_traces(*sources: str | os.PathLike[str], **options: Unpack[ReadOptions]) -> Traces:
    """The timelines of several saved traces: files, and folders with all trace files in them, ranks in order.

    The result is a tuple of them; `.ranks` has those of one job on one axis. `.flight` says which ranks hang in which
    collective, by dumps of torch's flight recorder (nccl_trace_rank_0, …, pickles or JSON).

    A file that cannot be read is left out with a warning of one line; where none can be read, the first TraceError is
    raised.

    >>> job = perfmagic.open_traces("runs")
    >>> len(job), [row.rank for row in job.ranks.table]
    (8, [0, 1, 2, 3, 4, 5, 6, 7])
    """
    results: list[TimelineResult] = []
    others, dumps = without_dumps(sources)
    flight, errors = open_dumps(dumps)
    with Progress("read", 0, "file") as shown:
        for n, (read, opened) in enumerate(open_each(others, **options), 1):
            if isinstance(opened, TraceError):
                errors.append(opened)
            else:
                results.append(opened)
            shown.at(n, of=read.n_files)
    if errors and not results and flight is None:
        raise errors[0]
    for problem in errors:
        warnings.warn(problem.message, stacklevel=3)  # the caller's line: documented() adds a frame
    from perfmagic.results import Traces

    return Traces(results).with_flight(flight)


def open_dumps(paths: Sequence[Path]) -> tuple[FlightResult | None, list[TraceError]]:
    """What dumps of torch's flight recorder say, None where none can be read; and why others cannot."""
    errors: list[TraceError] = []
    read: list[Dump] = []
    collector = Collector()
    with collector, collector:  # twice: an interrupt may strike before the first line of one __exit__
        gc.disable()
        for path in paths:
            from perfmagic.trace.formats.flight import Dump, read_dump

            try:
                read.append(read_dump(path))
            except TraceError as error:
                errors.append(error)
    if not read:
        return None, errors
    from perfmagic.results import FlightResult

    return FlightResult.of(read), errors


def open_each(
    sources: Iterable[str | os.PathLike[str]], **options: Unpack[ReadOptions]
) -> Iterator[tuple[FileRead, TimelineResult | TraceError]]:
    """Every file that some paths name, one by one, with its timeline or the reason why it cannot be read.

    After the last one, OptionError where comm_names matched no kernel of any of them.
    """
    comm_names = options.get("comm_names")
    checked_pattern(comm_names)
    opened: list[Trace] = []
    limit_bytes = options.get("max_unpacked_bytes", DEFAULT_LIMIT_BYTES)
    for read in read_each(sources, max_unpacked_bytes=limit_bytes, storage_options=options.get("storage_options")):
        if read.trace is not None:
            opened += [read.trace] if comm_names is not None else []
            yield read, TimelineResult(read.trace, comm_names=comm_names, title=read.title)
        elif read.problem is not None:
            yield read, read.problem
    check_matches(comm_names, opened)


def check_outputs(outputs: Mapping[str, Path], inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Raise OptionError where an output would replace a file that is read, or is named as a file of another kind.

    outputs: by the name of the option.  inputs: files and folders.
    """
    read: list[Path] = []
    for each in inputs:
        with suppress(TraceError):
            read += trace_files(each)
    read = [file for file in read if file.exists()]
    for option, path in outputs.items():
        if path.is_file() and any(map(path.samefile, read)):
            raise OptionError(f"--{option} {path} would replace a file that is read", hint="name another file")
        endings = ENDINGS.get(option, ())
        if endings and path.suffix.lower() not in ("", *endings):
            hint = f"name what to write first: --{option} OUT{endings[0]}"
            raise OptionError(f"--{option} writes {endings[0]}, and {path} has another ending", hint=hint)
