"""What a rank says of itself, made where its file is read: one call a file, for any executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from perfmagic.analysis.ranks.bands import in_columns, own_bands
from perfmagic.analysis.ranks.rank_summary import RankSummary, rank_summary
from perfmagic.errors import TraceError
from perfmagic.trace.formats.remote import is_url, read_remote
from perfmagic.trace.formats.sources import read_file
from perfmagic.trace.model import Trace


@dataclass(frozen=True)
class FileOfRank:
    """One file to read.  source: a path, or a URL for fsspec with its options.  columns: of the bands of a picture.

    comm_names, max_unpacked_bytes: as in perfmagic.open_trace().
    """

    source: str
    name: str
    comm_names: str | None
    max_unpacked_bytes: int
    columns: int
    options: Mapping[str, Any] = field(default_factory=dict)

    def read(self, *, helper: bool = True) -> Trace:
        """Its trace. Raises TraceError.  helper: whether a second process may decode a part of a large file."""
        most = self.max_unpacked_bytes
        if is_url(self.source):
            return read_remote(self.source, self.options, max_unpacked_bytes=most, helper=helper)
        return read_file(self.source, max_unpacked_bytes=most, helper=helper)


@dataclass(frozen=True)
class Said:
    """What came of one file: the summary of its rank, or why there is none."""

    summary: RankSummary | None = None
    problem: str = ""


def summarised(asked: FileOfRank) -> Said:
    """The summary of one file; what is wrong with it in words, whatever that is: it must not cost the other ranks.

    Runs in a worker, which is one of several on its host: no process is started beside it.
    """
    try:
        trace = asked.read(helper=False)
        made = rank_summary(trace, asked.comm_names)
        edges = (made.first_ns, made.last_ns, asked.columns)
        bands = {name: in_columns(spans, *edges) for name, spans in own_bands(trace, asked.comm_names).items()}
    except TraceError as error:
        return Said(problem=error.message)
    except Exception as error:  # noqa: BLE001 - see above
        return Said(problem=f"{asked.name} cannot be read: {type(error).__name__}: {error}")
    return Said(replace(made, bands=bands))
