"""Where Python was during some time: each path of calls once, with exact times, as a flame graph draws it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np

from perfmagic.analysis.timeline.host_time import BUILTIN_NAME, FRAME_NAME, STEP_NAME, is_own_frame, main_thread
from perfmagic.base.language import phrase
from perfmagic.base.numerics.intervals import Intervals, coded, covered_ns, distinct, total_ns, union
from perfmagic.trace.columns import NO_LINE, NONE, Bool, HostKind, HostOps, Int64, PathMarks, in_one_table
from perfmagic.trace.hoststack import HostStack, nested
from perfmagic.trace.json_form import JsonForm
from perfmagic.trace.model import Cell, Trace, once_per_trace
from perfmagic.trace.paths import NOWHERE, Paths
from perfmagic.trace.rows import Rows


def followed_lines(trace: Trace, thread: int) -> tuple[HostOps, tuple[str, ...]]:
    """Each stay on a line as a row of one thread, callers around what they called, and the names of these rows.

    Without followed functions the lines of the cell alone, which ran on its thread.
    """
    meta = trace.meta
    last_ns = meta.end_ns if meta.returned_ns is None else meta.returned_ns
    if trace.paths is None:
        marks = trace.marks
        levels = [np.where(marks.line == NO_LINE, NOWHERE, marks.line).astype(np.int64)]
        names = [_line_name(trace.cell, line) for line in range(int(marks.line.max(initial=0)) + 1)]
        return _stays(marks.at_ns, levels, last_ns, thread), tuple(names)
    paths = trace.paths
    own = paths.by_thread.get(thread)
    if own is None:
        return HostOps.make(), ()
    names = ["", *(_path_name(trace.cell, paths, row) for row in range(1, len(paths)))]
    last_ns = last_ns if paths.until_ns == NONE else min(last_ns, paths.until_ns)
    return _stays(own.at_ns, _callers(paths, own.path), last_ns, thread), tuple(names)


def _line_name(cell: Cell | None, line: int) -> str:
    text = cell.text(line) if cell else ""
    return f"line {line}: {text}" if text else f"line {line}"


def _path_name(cell: Cell | None, paths: Paths, row: int) -> str:
    function, line = paths.functions[paths.function[row]], int(paths.line[row])
    if function.is_cell:
        return _line_name(cell, line)
    text = function.text(line)
    return f"{function.name} ({function.file}:{line})" + (f": {text}" if text else "")


def _callers(paths: Paths, path: Int64) -> list[Int64]:
    """Of each path the outermost path that it is inside of, then the next, down to itself; NOWHERE below that."""
    depth = np.zeros(len(paths), np.int64)
    for row in range(1, len(paths)):  # callers come first
        depth[row] = depth[paths.parent[row]] + 1
    levels = [np.full(len(path), NOWHERE, np.int64) for _ in range(int(depth[path].max(initial=0)))]
    above = path.astype(np.int64)
    while (above != NOWHERE).any():
        for level in np.unique(depth[above[above != NOWHERE]]).tolist():
            here = depth[above] == level
            levels[level - 1][here] = above[here]
        above = paths.parent[above].astype(np.int64)
    return levels


def _stays(at_ns: Int64, levels: list[Int64], last_ns: int, thread: int) -> HostOps:
    """Rows from marks: each level's value holds until it changes, or what is around it does."""
    if not len(at_ns) or not levels:
        return HostOps.make()
    start, end, name = [], [], []
    end_ns = np.append(at_ns[1:], max(last_ns, int(at_ns[-1])))
    changed = np.arange(len(at_ns)) == 0
    for level in levels:
        changed = changed.copy()
        changed[1:] |= level[1:] != level[:-1]
        first = np.flatnonzero(changed)
        last = np.append(first[1:], len(at_ns)) - 1
        stays = level[first] != NOWHERE
        start.append(at_ns[first][stays])
        end.append(end_ns[last][stays])
        name.append(level[first][stays])
    n = sum(map(len, start))
    columns = {"start_ns": start, "end_ns": end, "name": name}
    joined = {key: np.concatenate(parts) for key, parts in columns.items()}
    fixed = {"kind": np.full(n, HostKind.PYTHON), "thread": np.full(n, thread)}
    return HostOps.make({**joined, **fixed})


def time_on_line(trace: Trace, line: int) -> Intervals:
    """When Python was on a line of the cell, or in what the line called."""
    marks, meta = trace.marks, trace.meta
    last_ns = meta.end_ns if meta.returned_ns is None else meta.returned_ns
    end_ns = np.append(marks.at_ns[1:], max(last_ns, int(marks.at_ns.max(initial=last_ns))))
    on = marks.line == line
    return union(marks.at_ns[on], end_ns[: len(on)][on])


THREAD, OWN, OTHER, LINE, OPERATOR, ANNOTATION = "thread", "own frame", "frame", "line", "operator", "annotation"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+(?=>$)")
_INSTANCE = re.compile(r"^(nn\.Module: .+)_\d+$")  # Kineto numbers the instances of a module: "nn.Module: Linear_3"


@dataclass(frozen=True)
class CallPath:
    """A function, operator or annotation together with all that was around it on its thread; or a thread.

    name: its own, with the place of a function: "step (train.py:12)".
    kind: "thread"; "own frame", of people's code and libraries; "frame", of torch, Python's plumbing and what is built
    in; "line", of a cell and its functions; "operator"; "annotation".
    thread: its number in the record.
    depth: how many rows are around it.
    parent: the row around it, counted from 0; -1 for a thread.
    n_calls: how often it ran in the time asked for.
    total_ns: how long it ran in that time; of a thread all the time asked for.
    self_ns: how long it was the innermost; of a thread what passed outside of all that was recorded.
    """

    shown: ClassVar[tuple[str, ...]] = ("name", "kind", "depth", "n_calls", "total_ns", "self_ns")

    name: str
    kind: str
    thread: int
    depth: int
    parent: int
    n_calls: int
    total_ns: int
    self_ns: int


@dataclass(frozen=True)
class Flame(JsonForm):
    """Where Python was in some time, as a flame graph draws it.

    sentence: which time of which threads, and what was recorded of it.
    weight: "time", or "idle" for the time in which a device was idle and waited for Python.
    device: which the record is of.
    simulated: whether that is simulated.
    total_ns: the time asked for, added up over threads.
    paths: every path of calls, a thread after the other, callers first.
    """

    computed = ("total_ns",)

    sentence: str
    weight: str
    device: str
    simulated: bool
    paths: Rows[CallPath]

    @property
    def total_ns(self) -> int:
        return sum(row.total_ns for row in self.paths if row.kind == THREAD)


def call_paths(trace: Trace, threads: Sequence[int], where: Intervals) -> Rows[CallPath]:
    """Where was each thread in some time? Every path of calls once, a thread after the other, callers first.

    where: sorted, disjoint, int64 ns. Calls of one name inside the same calls are one row, in order of the first one;
    so are modules of one class, and what is built in. Recursion is kept. A thread on which nothing ran is left out. A
    call that ends after the one around it, as times rounded to microseconds can, ends with it.
    """
    rows: list[CallPath] = []
    for thread in threads:
        above = len(rows)
        paths = _paths_of(trace, thread, where)
        if len(paths) > 1:
            rows += (replace(row, parent=row.parent + above) if row.depth else row for row in paths)
    return Rows(rows, CallPath)


def what_was_recorded(paths: Sequence[CallPath]) -> str:
    """What the paths are made of, in words."""
    kinds = {path.kind for path in paths}
    if kinds & {OWN, OTHER}:
        return phrase("frames recorded")
    return phrase("lines recorded") if LINE in kinds else phrase("operators recorded, and no frames")


def recorded_threads(trace: Trace) -> tuple[int, ...]:
    """The threads on which anything was recorded: the main one, then by number."""
    tables: list[HostOps | PathMarks] = [trace.host_ops, trace.python_frames.table]
    tables += [] if trace.paths is None else [trace.paths.marks]
    known = {thread for table in tables for thread in distinct(np.sort(table.thread)).tolist()}
    first = python_thread(trace)
    return (first, *sorted(known - {first}))


@once_per_trace
def python_thread(trace: Trace) -> int:
    """The thread that ran the cell or the marked steps; else the one with most frames, else with most calls."""
    if trace.paths is not None:
        return trace.paths.main_thread
    host, step = trace.host_ops, _is_step(trace)
    if len(trace.marks) and len(host):
        return int(host.thread[0])  # threads of a backward pass begin after the forward pass that asks for them
    for threads in (host.thread[step[host.name]], trace.python_frames.table.thread):
        numbers, n = np.unique(threads, return_counts=True)
        if len(numbers):
            return int(numbers[n.argmax()])
    return main_thread(trace)


@once_per_trace
def _is_step(trace: Trace) -> Bool:
    """Which names are torch.profiler's marks of steps; shape of trace.names."""
    return np.array([name.startswith(STEP_NAME) for name in trace.names], bool)


class _Level(NamedTuple):
    """The paths at one depth; arrays of equal length.

    parent: the number of the path around each.  label: of its name.  first_ns: the start of its first call.
    """

    parent: Int64
    label: Int64
    first_ns: Int64
    n_calls: Int64
    total_ns: Int64


def _paths_of(trace: Trace, thread: int, where: Intervals) -> list[CallPath]:
    """The paths of one thread, itself first."""
    table, names = host_rows(trace, thread)
    label, labels = labelled(table, names, len(trace.names))
    levels = list(_levels(table, label, thread, where))
    parent, label, first_ns, n_calls, total = (np.concatenate(column) for column in zip(*levels, strict=True))
    alone = total.copy()
    np.subtract.at(alone, parent[1:], total[1:])
    place = _in_order(levels, parent, first_ns)
    labels = [*labels, thread_label(trace, thread)]
    depth = np.repeat(np.arange(len(levels)), [len(level.parent) for level in levels])
    columns = (depth, np.append(NONE, place[parent[1:]]), n_calls, total, alone)
    order = np.argsort(place)
    of_label = [labels[number] for number in label[order].tolist()]
    rows = zip(of_label, *(column[order].tolist() for column in columns), strict=True)
    return [CallPath(name, kind, thread, *numbers) for (name, kind), *numbers in rows]


def thread_label(trace: Trace, thread: int) -> tuple[str, str]:
    """The name and the kind of a thread."""
    main = thread == python_thread(trace)
    return phrase("main thread") if main else phrase("thread {n}", n=thread), THREAD


def host_rows(trace: Trace, thread: int) -> tuple[HostOps, tuple[str, ...]]:
    """What a flame graph of a thread is made of, and the names of the rows.

    Python frames where they were recorded, else lines where they were followed, and the operators inside them.
    Without either, operators and annotations. Marks of steps are left out, so that calls of all steps are one row.
    Of two rows of one time a frame is the outer one. Rows of trace.host_ops have their number there as `value`, frames
    and lines have NONE.
    """
    host = replace(trace.host_ops, value=np.arange(len(trace.host_ops), dtype=np.int32))
    frames, names = trace.python_frames.table, trace.names
    frames = frames.select(frames.thread == thread)
    if not len(frames) and (trace.paths is not None or thread == python_thread(trace)):
        frames, lines = followed_lines(trace, thread)
        frames = replace(frames, name=frames.name + np.int32(len(names)))
        names = (*names, *lines)
    wanted = (host.thread == thread) & ~_is_step(trace)[host.name]
    if len(frames):
        wanted &= host.kind == HostKind.OP
    return in_one_table(frames, _without_crossed(host.select(wanted), frames)), names


def _without_crossed(rows: HostOps, frames: HostOps) -> HostOps:
    """The operators but those in which a Python frame begins that ends later: they are marks around several calls."""
    crossed = np.zeros(len(rows), bool)
    for frame in nested(frames).each_level_at(rows.thread, rows.end_ns - 1) if len(frames) else ():
        later = (frames.start_ns[frame] > rows.start_ns) & (frames.end_ns[frame] > rows.end_ns)
        crossed |= later & (frame != NONE)
    return rows.select(~crossed)


def labelled(table: HostOps, names: Sequence[str], n_recorded: int) -> tuple[Int64, list[tuple[str, str]]]:
    """The label of each row, and the name and the kind of each label. n_recorded: names after these are lines."""
    n_kinds = len(HostKind)
    codes, group = coded(table.name.astype(np.int64) * n_kinds + table.kind)
    numbers: dict[tuple[str, str], int] = {}
    number = []
    for name, kind in (divmod(code, n_kinds) for code in codes.tolist()):
        label = (names[name], LINE) if name >= n_recorded else _label(names[name], kind)
        number.append(numbers.setdefault(label, len(numbers)))
    return np.array(number, np.int64)[group], list(numbers)


def _label(name: str, kind: int) -> tuple[str, str]:
    """A name as it is read, and its kind. Addresses and numbers of instances are left out: such calls are one row."""
    if kind != HostKind.PYTHON:
        return name, OPERATOR if kind == HostKind.OP else ANNOTATION
    if builtin := BUILTIN_NAME.match(name):
        return f"{builtin['function']} (built-in)", OTHER
    name = _ADDRESS.sub("", _INSTANCE.sub(r"\1", name))
    place = FRAME_NAME.fullmatch(name)
    words = f"{place['function']} ({place['file']}:{place['line']})" if place else name
    return words, OWN if is_own_frame(name) else OTHER


def _levels(table: HostOps, label: Int64, thread: int, where: Intervals) -> Iterator[_Level]:
    """The paths at each depth that ran in some time: the thread, then the outermost calls, then what is inside."""
    n_labels = int(label.max(initial=-1)) + 1
    itself = (0, n_labels, int(where[0, 0]), 1, total_ns(where))  # its label is the one behind the last
    yield _Level(*(np.array([number], np.int64) for number in itself))
    stack = nested(table)
    parent, path, n_paths = stack.parents(), np.zeros(len(table) + 1, np.int64), 1
    end_ns = ends_inside(stack, parent)
    for level in stack.levels.get(thread, ()):
        ran_ns = covered_ns(where, table.start_ns[level], end_ns[level])
        rows = level[ran_ns > 0]
        keys, group = coded(path[parent[rows]] * n_labels + label[rows])  # path[NONE] is the thread
        first_ns, total = np.full(len(keys), np.iinfo(np.int64).max), np.zeros(len(keys), np.int64)
        np.minimum.at(first_ns, group, table.start_ns[rows])
        np.add.at(total, group, ran_ns[ran_ns > 0])
        path[rows] = n_paths + group
        n_paths += len(keys)
        yield _Level(keys // n_labels, keys % n_labels, first_ns, np.bincount(group, minlength=len(keys)), total)


def ends_inside(stack: HostStack, parent: Int64) -> Int64:
    """When each row of a stack ends, or the one around it does, if that is sooner; shape of its table."""
    end_ns = stack.host_ops.end_ns.copy()
    for levels in stack.levels.values():
        for rows in levels[1:]:
            end_ns[rows] = np.minimum(end_ns[rows], end_ns[parent[rows]])
    return end_ns


def _in_order(levels: Sequence[_Level], parent: Int64, first_ns: Int64) -> Int64:
    """The place of each path: callers before what they call, and paths inside the same ones by their first start."""
    ends = np.cumsum([len(level.parent) for level in levels]).tolist()
    spans = list(pairwise(ends))
    size, place = np.ones(ends[-1], np.int64), np.zeros(ends[-1], np.int64)
    for begin, end in reversed(spans):
        np.add.at(size, parent[begin:end], size[begin:end])
    for begin, end in spans:
        order = begin + np.lexsort((first_ns[begin:end], parent[begin:end]))
        before = np.cumsum(size[order]) - size[order]
        head = np.searchsorted(parent[order], parent[order])  # the first path inside the same one
        place[order] = place[parent[order]] + 1 + before - before[head]
    return place


def collapsed(paths: Sequence[CallPath]) -> str:
    """The paths as lines "thread;outer;inner 1234", the self time in µs, of those that were innermost for some.

    The running sum is rounded, not each time: the sum over a path and all inside it is off by less than 1 µs.
    """
    lines, stack, sum_ns = [], [""], 0
    for path in paths:
        stack[path.depth :] = [" ".join(path.name.replace(";", ":").split())]
        before_us, sum_ns = round(sum_ns / 1000), sum_ns + path.self_ns
        if own_us := round(sum_ns / 1000) - before_us:
            lines.append(f"{';'.join(stack)} {own_us}\n")
    return "".join(lines)


# Every call with the path it is on: a flame graph of any time adds these up, even without the trace.


@dataclass(frozen=True, eq=False)
class EveryCall:
    """The paths of all threads, and the calls on each; call_paths() of any time follows from them, exactly.

    labels: the name and the kind of each label.
    parent, label: of each path. Callers come first; a thread has the parent NONE.
    path: of each row of trace.host_ops, NONE of rows that are in no flame graph.
    early_ns: how long before its end each of these rows stops counting, as the call around it ends.
    start_ns, end_ns, frame_path: of each frame or line, a thread after the other, by depth and start.
    left_out_ns: frames and lines up to this length are left out, and count as their caller's own time; 0: none.
    """

    labels: tuple[tuple[str, str], ...]
    parent: Int64
    label: Int64
    path: Int64
    early_ns: Int64
    start_ns: Int64
    end_ns: Int64
    frame_path: Int64
    left_out_ns: int


def every_call(trace: Trace, most_frames: int) -> EveryCall:
    """Which path is each call on? most_frames: of more frames and lines the shortest are left out."""
    threads = recorded_threads(trace)
    made = [host_rows(trace, thread) for thread in threads]
    left_out_ns = _length_left_out([table for table, _ in made], most_frames)
    paths = _Paths(trace, left_out_ns)
    for thread, (table, names) in zip(threads, made, strict=True):
        paths.add(thread, table, names)
    return paths.result()


def _length_left_out(tables: Sequence[HostOps], most_frames: int) -> int:
    """The length of the longest frame that is left out, so that most_frames remain at most; 0 where all do."""
    lengths = np.concatenate([(table.end_ns - table.start_ns)[table.value == NONE] for table in tables])
    if len(lengths) <= most_frames:
        return 0
    return int(np.partition(lengths, -most_frames - 1)[-most_frames - 1])


@dataclass
class _Paths:
    """Collects the paths and the calls of one thread after the other."""

    trace: Trace
    left_out_ns: int
    labels: dict[tuple[str, str], int] = field(default_factory=dict)
    parent: list[Int64] = field(default_factory=list)
    label: list[Int64] = field(default_factory=list)
    frames: list[tuple[Int64, ...]] = field(default_factory=lambda: [(np.zeros(0, np.int64),) * 3])
    n_paths: int = 0

    def __post_init__(self) -> None:
        n_rows = len(self.trace.host_ops)
        self.path, self.early_ns = np.full(n_rows, NONE, np.int64), np.zeros(n_rows, np.int64)

    def add(self, thread: int, table: HostOps, names: Sequence[str]) -> None:
        """Add a thread; one without calls is left out."""
        stack = nested(table)
        parent = stack.parents()
        end_ns = ends_inside(stack, parent)
        label, labels = labelled(table, names, len(self.trace.names))
        number = np.array([self._number(words) for words in labels], np.int64)[label]
        is_frame = table.value == NONE
        kept = ~is_frame | (table.end_ns - table.start_ns > self.left_out_ns)
        path = np.full(len(table) + 1, self.n_paths)  # the last one, of NONE, is the thread's
        for depth, level in enumerate(stack.levels.get(thread, ())):
            if not depth:
                self._new(np.array([NONE]), np.array([self._number(thread_label(self.trace, thread))]))
            path[level] = path[parent[level]]  # of those left out, their caller's
            rows = level[kept[level]]
            keys, group = coded(path[parent[rows]] * len(self.labels) + number[rows])
            path[rows] = self.n_paths + group
            self._new(keys // len(self.labels), keys % len(self.labels))
            own, frames = rows[~is_frame[rows]], rows[is_frame[rows]]
            self.path[table.value[own]] = path[own]
            self.early_ns[table.value[own]] = table.end_ns[own] - end_ns[own]
            self.frames.append((table.start_ns[frames], end_ns[frames], path[frames]))

    def result(self) -> EveryCall:
        start_ns, end_ns, frame_path = (_joined(column) for column in zip(*self.frames, strict=True))
        paths = tuple(self.labels), _joined(self.parent), _joined(self.label)
        return EveryCall(*paths, self.path, self.early_ns, start_ns, end_ns, frame_path, self.left_out_ns)

    def _number(self, words: tuple[str, str]) -> int:
        return self.labels.setdefault(words, len(self.labels))

    def _new(self, parent: Int64, label: Int64) -> None:
        """Number some more paths."""
        self.parent.append(parent)
        self.label.append(label)
        self.n_paths += len(parent)


def _joined(parts: Sequence[Int64]) -> Int64:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
