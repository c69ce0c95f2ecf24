"""Repeat a recorded trace in time until it is as large as wanted: real rows, in real proportions, of any number.

    python benchmarks/repeat_trace.py OUT [--source FILE] [--events N | --rounds N] [--indented] [--rank N]

OUT is gzipped where its name ends in .gz. Prints one JSON object: events, rounds, bytes.

Every round is later by the same whole number of microseconds, so that the digits behind the point stay those of the
source and no time passes through a float. Correlations, External ids and flow ids grow by one step a round, the numbers
of operators and Python frames by another: a launch finds the ops of its own round and no others. Steps count on. The
header, the names of processes and threads and the profiler's own rows are written once. All else is repeated as it is.

One JSON line, or indented as Kineto writes it: a few keys a line. A round is written before the next one is made; in
memory are the source, its text with gaps where numbers change, and one round. The source is taken to be undamaged.
"""

import argparse
import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

SOURCE = Path(__file__).resolve().parents[1] / "tests" / "data" / "traces" / "v100_4streams_nccl_step.json.gz"
PAUSE_NS = 100_000  # between two rounds

GAP = "\0"  # stands in a template where a number is written; JSON text has no such character
TIME, LINK, INDEX, STEP = range(4)  # what a number counts, and so by how much it grows from round to round
COUNTED = {
    "correlation": LINK,
    "External id": LINK,
    "external id": LINK,
    "wait_on_cuda_event_record_corr_id": LINK,
    "Ev Idx": INDEX,
    "Profiler Event Index": INDEX,
    "Python id": INDEX,
    "Python parent id": INDEX,
    "Record function id": INDEX,
    "Sequence number": INDEX,
}
STEP_NAME = b'"ProfilerStep#'
OWN_ROWS = (b'"Record Window End"', b'"Iteration Start:')  # the profiler's, about the whole of a recording

# Where Kineto begins a new line.
BREAK_BEFORE = {b'"X"': "ts", b'"s"': "cat", b'"f"': "cat", b'"M"': "pid", b'"i"': "pid"}
ARGUMENTS_BREAK_BEFORE = {
    "Ev Idx", "cbid", "queued", "stream", "registers per thread", "shared memory", "blocks per SM", "warps per SM",
    "grid", "block", "est. achieved occupancy %",
}  # fmt: skip

Raw = dict[str, bytes]  # keys and the text of their values


@dataclass
class Template:
    """Events as text with gaps, the first number of each gap and what it counts."""

    indented: bool
    events: int = 0
    first: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # of the events; of what lies between gaps once closed

    def add(self, event: Raw) -> None:
        """Append an event's text."""
        self.events += 1
        self.texts.append(self._indented(event) if self.indented else self._line(event))

    def close(self) -> "Template":
        """Cut the text at its gaps."""
        self.texts = self.between.join(self.texts).split(GAP)
        return self

    @property
    def between(self) -> str:
        return ",\n" if self.indented else ", "

    def round(self, number: int, grows: dict[int, int]) -> str:
        """The text of round 0, 1, ..."""
        by = [number * grows[kind] for kind in range(len(grows))]
        numbers = [str(first + by[kind]) for first, kind in zip(self.first, self.counts, strict=True)]
        return "".join(chain.from_iterable(zip(self.texts, [*numbers, ""], strict=True)))

    def span(self, kind: int) -> int:
        """How far the numbers of a kind reach, at least 1: rounds that far apart have none in common."""
        numbers = [first for first, counts in zip(self.first, self.counts, strict=True) if counts == kind]
        return max(numbers, default=0) - min(numbers, default=0) + 1

    def _line(self, event: Raw) -> str:
        fields = [self._field(key, value, event) for key, value in event.items() if key != "args"]
        if "args" in event:
            fields.append(f'"args": {{{", ".join(self._arguments(event["args"]))}}}')
        return f"{{{', '.join(fields)}}}"

    def _indented(self, event: Raw) -> str:
        new_line = BREAK_BEFORE.get(event.get("ph", b""))
        text = "  {\n    "
        for place, (key, value) in enumerate((k, v) for k, v in event.items() if k != "args"):
            text += ("" if place == 0 else ",\n    " if key == new_line else ", ") + self._field(key, value, event)
        if "args" in event:
            text += ',\n    "args": {\n      '
            for place, argument in enumerate(self._arguments(event["args"])):
                key = argument[1 : argument.index('"', 1)]
                text += ("" if place == 0 else ",\n      " if key in ARGUMENTS_BREAK_BEFORE else ", ") + argument
            text += "\n    }"
        return text + "\n  }"

    def _field(self, key: str, value: bytes, event: Raw) -> str:
        if key == "ts":
            return f'"ts": {self._time(value)}'
        if key == "id" and event.get("ph") in (b'"s"', b'"f"', b'"t"') and value.isdigit():
            return f'"id": {self._gap(int(value), LINK)}'
        if key == "name" and value.startswith(STEP_NAME) and value[len(STEP_NAME) : -1].isdigit():
            return f'"name": {STEP_NAME.decode()}{self._gap(int(value[len(STEP_NAME) : -1]), STEP)}"'
        return f"{json.dumps(key)}: {one_line(value)}"

    def _arguments(self, arguments: bytes) -> Iterator[str]:
        for key, value in raw(arguments).items():
            counted = key in COUNTED and value.isdigit() and int(value) > 0  # 0 and -1 say that there is none
            text = self._gap(int(value), COUNTED[key]) if counted else one_line(value)
            yield f"{json.dumps(key, ensure_ascii=False)}: {text}"

    def _time(self, value: bytes) -> str:
        whole_us, rest_ns = divmod(nanoseconds(value), 1000)
        fraction = f".{rest_ns:03}" if rest_ns or b"." in value else ""
        return self._gap(whole_us, TIME) + fraction

    def _gap(self, first: int, counts: int) -> str:
        self.first.append(first)
        self.counts.append(counts)
        return GAP


def raw(text: bytes) -> Raw:
    """The values of a JSON object as they are written."""
    return {key: bytes(value) for key, value in msgspec.json.decode(text, type=dict[str, msgspec.Raw]).items()}


def one_line(value: bytes) -> str:
    """A value without the line ends it has in an indented file."""
    return (msgspec.json.format(value, indent=0) if value[:1] in (b"[", b"{") else value).decode()


def nanoseconds(value_us: bytes) -> int:
    """A time as the file has it, in whole nanoseconds."""
    return int((Decimal(value_us.decode()) * 1000).to_integral_value())


def is_said_once(event: Raw) -> bool:
    """Names of processes and threads, and what the profiler says of itself."""
    own = event.get("cat") == b'"Trace"' or event.get("name", b"").startswith(OWN_ROWS)
    return own or event.get("ph") == b'"M"'


@dataclass
class Recording:
    """A source taken apart: header fields before and behind the events, events to repeat and events to say once."""

    before: Raw
    behind: Raw
    repeated: Template
    once: Template
    grows: dict[int, int]

    def rounds(self, events: int) -> int:
        """How many rounds come nearest to so many events."""
        return max(1, round((events - self.once.events) / self.repeated.events))


def take_apart(source: Path, *, indented: bool, rank: int | None) -> Recording:
    """Read a source; rank: what its header says if it says none."""
    data = source.read_bytes()
    header = raw(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    rows = msgspec.json.decode(header["traceEvents"], type=list[msgspec.Raw])
    place = list(header).index("traceEvents")
    fields = [(key, value) for key, value in header.items() if key != "traceEvents"]
    before, behind = dict(fields[:place]), dict(fields[place:])
    if rank is not None and "distributedInfo" not in header:
        before["distributedInfo"] = json.dumps({"rank": rank}).encode()
    del data, header
    repeated, once = Template(indented), Template(indented)
    start_ns: list[int] = []
    end_ns: list[int] = []
    for row in rows:
        event = raw(row)
        if is_said_once(event):
            once.add(event)
            continue
        repeated.add(event)
        start_ns.append(nanoseconds(event["ts"]))
        end_ns.append(start_ns[-1] + nanoseconds(event.get("dur", b"0")))
    extent_ns = max(end_ns) - min(start_ns)
    grows = {kind: repeated.span(kind) for kind in (LINK, INDEX, STEP)}
    grows[TIME] = -(-(extent_ns + PAUSE_NS) // 1000)
    return Recording(before, behind, repeated.close(), once.close(), grows)


def texts(recording: Recording, rounds: int) -> Iterator[str]:
    """The whole file, in pieces of at most a round."""
    indented = recording.repeated.indented
    comma, end = (",\n", "\n") if indented else (", ", "")
    yield "{" + end
    for key, value in recording.before.items():
        yield f"{_field(key, value, indented=indented)}{comma}"
    yield f'{"  " if indented else ""}"traceEvents": [{end}'
    for number in range(rounds):
        yield (recording.repeated.between if number else "") + recording.repeated.round(number, recording.grows)
    if recording.once.events:
        yield recording.once.between + recording.once.round(0, recording.grows)
    yield f"{end}  ]" if indented else "]"
    for key, value in recording.behind.items():
        yield f"{comma}{_field(key, value, indented=indented)}"
    yield end + "}" + end


def _field(key: str, value: bytes, *, indented: bool) -> str:
    return f"{'  ' if indented else ''}{json.dumps(key)}: {one_line(value)}"


@contextmanager
def opened(out: Path) -> Iterator[BinaryIO]:
    """The file to write, gzipped where its name says so; the same rounds give the same bytes."""
    with out.open("wb") as file:
        if out.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
            yield cast("BinaryIO", packed)


def repeat(
    source: Path, out: Path, *, events: int, rounds: int | None = None, indented: bool = False, rank: int | None = None
) -> dict[str, Any]:
    """Write `out`; gives how many events, rounds and bytes (unpacked) it has."""
    recording = take_apart(source, indented=indented, rank=rank)
    rounds = rounds or recording.rounds(events)
    written = 0
    with opened(out) as file:
        for text in texts(recording, rounds):
            written += file.write(text.encode())
    return {"events": recording.once.events + rounds * recording.repeated.events, "rounds": rounds, "bytes": written}


def main() -> None:
    """Write one file and print what it has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--source", type=Path, default=SOURCE, metavar="FILE", help="the trace to repeat")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--events", type=int, default=1_060_000, metavar="N", help="whole rounds, nearest to N events")
    size.add_argument("--rounds", type=int, metavar="N")
    parser.add_argument("--indented", action="store_true", help="a few keys a line, as Kineto writes")
    parser.add_argument("--rank", type=int, metavar="N", help="the rank in the header, if the source has none")
    options = vars(parser.parse_args())
    print(json.dumps(repeat(options.pop("source"), options.pop("out"), **options)))


if __name__ == "__main__":
    main()
