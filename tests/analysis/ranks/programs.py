"""Ranks from programs whose truth is known: what each rank does, and whom it meets, in ms; simulated to traces.

A program is a list of ("work", line, ms), ("meet", group), ("share", group, rows), ("send", to) and ("recv", from) for
each rank, with ("step", number) where a step begins. To share is an all_to_all of rows of 1,024 bytes.
Lines are lines of a cell; messages of a pair keep their order.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from perfmagic.analysis.ranks.ranks import Ranks, ranks_of
from perfmagic.trace.columns import NONE, HostKind
from perfmagic.trace.model import Cell, DeviceInfo, Trace, TraceMeta, make_trace

MS = 1_000_000
SOURCE = "%%ranks\n" + "\n".join(f"line_{n}()" for n in range(2, 20))


@dataclass
class Rank:
    """What one rank does, in its order."""

    number: int
    ops: list[tuple[Any, ...]] = field(default_factory=list)

    def work(self, line: int, ms: float) -> None:
        if ms > 0:
            self.ops.append(("work", line, round(ms * MS)))

    def meet(self, *group: int) -> None:
        self.ops.append(("meet", tuple(sorted(group))))

    def share(self, rows: int, *group: int) -> None:
        self.ops.append(("share", tuple(sorted(group)), rows))

    def send(self, to: int) -> None:
        self.ops.append(("send", to))

    def recv(self, source: int) -> None:
        self.ops.append(("recv", source))

    def rows(self, number: int, group: tuple[int, ...]) -> int:
        """Of its all_to_all of that number in a group."""
        return int([op[2] for op in self.ops if op[:2] == ("share", group)][number])

    def step(self, number: int) -> None:
        self.ops.append(("step", number))


Program = Callable[[Rank], None]
Rows = list[tuple[str, Any, int, int]]  # kind, what, start and end in ns


def ran(n: int, program: Program, link_ms: float = 0.1, slow: dict[int, float] | None = None) -> list[Rows]:
    """What each rank did when.  slow: by rank how many times longer what it takes part in moves data.

    link_ms: of each transfer; to share takes it for each row of the rank that has most.
    """
    ranks = [Rank(i) for i in range(n)]
    for rank in ranks:
        program(rank)
    at, t = [0] * n, [0] * n
    rows: list[Rows] = [[] for _ in range(n)]
    came: dict[Any, dict[int, int]] = defaultdict(dict)
    count: list[dict[Any, int]] = [defaultdict(int) for _ in range(n)]
    moved = True
    while moved:
        moved = False
        for r, rank in enumerate(ranks):
            while at[r] < len(rank.ops):
                op = rank.ops[at[r]]
                if op[0] == "work":
                    rows[r].append(("work", op[1], t[r], t[r] + op[2]))
                    t[r] += op[2]
                elif op[0] == "step":
                    rows[r].append(("step", op[1], t[r], t[r]))
                else:
                    pair = {"send": (r, op[1]), "recv": (op[1], r)}.get(op[0]) or op[1]
                    key = (op[0] in ("meet", "share"), pair, count[r][op[0], pair])
                    if op[0] == "send":  # buffered
                        came[key][r] = t[r]
                        rows[r].append(("send", op[1], t[r], t[r] + 1000))
                        t[r] += 1000
                        count[r][op[0], pair] += 1
                        at[r] += 1
                        moved = True
                        continue
                    came[key].setdefault(r, t[r])
                    if len(came[key]) < len(pair):
                        break
                    of_rows = max(ranks[i].rows(count[r][op[0], pair], pair) for i in pair) if op[0] == "share" else 1
                    link = round(link_ms * MS * of_rows * max((slow or {}).get(i, 1) for i in pair))
                    end = max(came[key].values()) + link
                    rows[r].append((op[0], op[1:] if op[0] == "share" else op[1], came[key][r], end))
                    t[r] = end
                    count[r][op[0], pair] += 1
                at[r] += 1
                moved = True
    assert all(a == len(rank.ops) for a, rank in zip(at, ranks, strict=True)), "deadlock"
    return rows


def traced(n: int, rows: Sequence[Rows], *, file: bool = False) -> list[Trace]:
    """The traces of what ranks did on the CPU, in a cell or in files."""
    return [_trace(n, r, of_rank, file=file) for r, of_rank in enumerate(rows)]


def job(n: int, program: Program, *, file: bool = False, **moves: Any) -> Ranks:
    """The ranks of a program."""
    made = ranks_of(traced(n, ran(n, program, **moves), file=file))
    assert made is not None
    return made


def _trace(n: int, r: int, rows: Rows, *, file: bool) -> Trace:
    names: list[str] = []
    shapes: list[str] = []
    host, marks, steps = [], [], []
    end_ns = max((end for *_, end in rows), default=0)

    def row(name: str, start: int, end: int, thread: int, kind: HostKind = HostKind.OP, rows: int = 0) -> None:
        if name not in names:
            names.append(name)
        if rows and (shape := f"[[{rows}, 256]]") not in shapes:
            shapes.append(shape)
        of = (shapes.index(f"[[{rows}, 256]]"), 0) if rows else (NONE, NONE)
        host.append((start, end, int(kind), names.index(name), thread, *of))

    for kind, what, start, end in rows:
        if kind == "step":
            steps.append((what, start))
        elif kind == "work":
            marks.append((start, what))
            if file:
                row(f"line_{what}", start, end, 1)
        else:
            marks.append((start, 19))
            row(_communication(kind, what), start, end, 9, rows=what[1] if kind == "share" else 0)
    for (number, start), after in zip(steps, [*(s for _, s in steps[1:]), end_ns], strict=False):
        row(f"ProfilerStep#{number}", start, after, 1, HostKind.ANNOTATION)
    marks.append((end_ns, 0))
    meta = TraceMeta(
        origin="file" if file else "cell", end_ns=end_ns, returned_ns=None if file else end_ns, rank=r, world_size=n,
        devices=(DeviceInfo(0, "cpu", "CPU"),), boot="a host", monotonic_base_ns=0,
    )  # fmt: skip
    columns = ("start_ns", "end_ns", "kind", "name", "thread", "shape", "dtype")
    return make_trace(
        names,
        meta,
        host_ops={name: [each[i] for each in host] for i, name in enumerate(columns)},
        marks=None
        if file
        else {
            "at_ns": [at for at, _ in marks],
            "line": [line for _, line in marks],
            "top_line": [line for _, line in marks],
        },
        cell=None if file else Cell(SOURCE),
        input_shapes=tuple(shapes),
        input_dtypes=('["float"]',) if shapes else (),
    )


def _communication(kind: str, what: Any) -> str:
    """As the record of gloo names it."""
    if kind in ("send", "recv"):
        return f"gloo:{kind} {'to' if kind == 'send' else 'from'} {what}"
    ranks = what[0] if kind == "share" else what
    name = "all_to_all" if kind == "share" else "all_reduce"
    return f"gloo:{name} in group {'_'.join(map(str, ranks))} of ranks {', '.join(map(str, ranks))}"


@dataclass(frozen=True)
class Delayed:
    """A random job with one delay, and its truth.  waited_ns: what all ranks wait with it, less what without."""

    ranks: Ranks
    rank: int
    line: int
    step: int
    waited_ns: int


def random_job(seed: int, jitter: float, least_ms: float, most_ms: float) -> Delayed:
    """4 to 8 ranks, 3 to 6 steps of 2 to 4 lines of 10 ms, each followed by a collective of all, of halves or of pairs,
    by messages round the ring, or by nothing; and one line that takes longer once, on one rank.
    """
    rng = random.Random(seed)
    n, n_steps = rng.choice([4, 6, 8]), rng.randint(3, 6)
    lines = range(2, 2 + rng.randint(2, 4))
    rank, step, line, late_ms = (
        rng.randrange(n),
        rng.randrange(n_steps),
        rng.choice(lines),
        rng.uniform(least_ms, most_ms),
    )
    plan = [[(each, rng.choice(["none", "all", "half", "pairs", "shift"])) for each in lines] for _ in range(n_steps)]

    def program(late_ms: float) -> Program:
        def of(r: Rank) -> None:
            own = random.Random(seed * 1000 + r.number)
            for s, of_step in enumerate(plan):
                r.step(s)
                for each, meets in of_step:
                    late = (r.number, s, each) == (rank, step, line)
                    r.work(each, 10 * (1 + own.uniform(-jitter, jitter)) + (late_ms if late else 0))
                    _meet(r, n, meets)

        return of

    with_it, without = (ran(n, program(ms)) for ms in (late_ms, 0))
    ranks = ranks_of(traced(n, with_it))
    assert ranks is not None
    return Delayed(ranks, rank, line, step, _communicated_ns(with_it) - _communicated_ns(without))


def _meet(r: Rank, n: int, how: str) -> None:
    if how == "shift":
        r.send((r.number + 1) % n)
        r.recv((r.number - 1) % n)
    elif how != "none":
        half = tuple(x for x in range(n) if x % 2 == r.number % 2)
        first = r.number // 2 * 2
        r.meet(*{"all": tuple(range(n)), "half": half, "pairs": (first, first + 1)}[how])


def _communicated_ns(rows: Sequence[Rows]) -> int:
    return sum(end - start for of_rank in rows for kind, _, start, end in of_rank if kind in ("meet", "recv"))
