"""What every renderer of a graph shows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from perfmagic.analysis.findings.answer import Conclusion
from perfmagic.analysis.graph.graph import Graph
from perfmagic.analysis.graph.groups import Drawn
from perfmagic.analysis.graph.late import LateNode
from perfmagic.base import units
from perfmagic.base.language import say, translate_term, translated
from perfmagic.base.tables import Table
from perfmagic.trace.columns import Int64
from perfmagic.trace.names import OpClass
from perfmagic.trace.rows import Rows
from perfmagic.view.svg.palette import CLASS_TOKENS

EXECUTED = "as executed"
PLANNED = "as the dependencies allow, one op at a time in each lane"
# µs: of benchmarks/results/graph.md
ONCE = "this is one run: first calls cost more, so run the cell twice; recording adds 5 to 20 µs of Python per operator"
_MOST_OF_CHAIN = 12


@dataclass(frozen=True)
class GraphDoc:
    """What a graph says and its numbers.  about: what was measured.  drawn: the boxes of its picture."""

    device: str
    failed: str
    conclusion: Conclusion
    about: str
    graph: Graph
    drawn: Drawn
    late: Rows[LateNode]
    notes: tuple[str, ...]

    @cached_property
    def executed_ns(self) -> Int64:
        """Each stretch in which a node ran: the node, start and end from the first start, shape (stretches, 3)."""
        first_ns = self.graph.start_ns
        busy_ns = [(i, a - first_ns, b - first_ns) for i, node in enumerate(self.graph.placed) for a, b in node.busy_ns]
        return np.array(busy_ns, np.int64).reshape(-1, 3)

    @cached_property
    def planned_ns(self) -> Int64:
        """The same where nodes wait for their needs alone."""
        durations_ns = np.array([node.duration_ns for node in self.graph.nodes], np.int64)
        start_ns = np.array(self.graph.planned_ns, np.int64)
        return np.stack((np.arange(len(start_ns)), start_ns, start_ns + durations_ns), 1)

    def bars(self, how: str, lane: int) -> Int64:
        """The stretches of a lane by their starts, EXECUTED or PLANNED; shape as theirs."""
        return self._bars[how, lane]

    @cached_property
    def _bars(self) -> dict[tuple[str, int], Int64]:
        lanes = np.array(self.graph.lane, np.int64)
        bars: dict[tuple[str, int], Int64] = {}
        for how, times in ((EXECUTED, self.executed_ns), (PLANNED, self.planned_ns)):
            by_start = times[np.lexsort((times[:, 2], times[:, 1]))]
            of_bar = lanes[by_start[:, 0]]
            bars |= {(how, lane): by_start[of_bar == lane] for lane in range(len(self.graph.lanes))}
        return bars

    @cached_property
    def tones(self) -> Any:
        """The colour of what executed each node."""
        return np.array([tone_of(node.colour) for node in self.graph.placed], str)

    @property
    def sentence(self) -> str:
        """What decides, with the numbers, in the language in force."""
        return translated(self.conclusion.decides)

    @property
    def lanes(self) -> Table:
        """Of each lane its operators, their time, and that as a share of the elapsed time; then the sum."""
        rows = []
        for at, lane in enumerate(self.graph.lanes):
            work = [node.duration_ns for node, on in zip(self.graph.nodes, self.graph.lane, strict=True) if on == at]
            share = units.percent(sum(work) / max(1, self.graph.elapsed_ns))
            rows.append((translate_term(lane), units.count(len(work)), units.duration(sum(work)), share))
        rows.append((say("all"), units.count(len(self.graph.nodes)), units.duration(self.graph.work_ns), ""))
        return Table("lanes", ("lane", "operators", "work", "share of the time"), rows)

    def longest(self) -> str:
        """The critical path in words: its first operators with their times."""
        nodes = [self.graph.nodes[i] for i in self.graph.chain]
        shown = nodes if len(nodes) <= _MOST_OF_CHAIN else nodes[: _MOST_OF_CHAIN - 1]
        words = [f"{node.name} {units.duration(node.duration_ns)}" for node in shown]
        more = [say("{n} more", n=units.count(len(nodes) - len(shown)))] if len(shown) < len(nodes) else []
        path = " → ".join([*words, *more])
        return say(
            "critical path, {time} with a lane for each op: {path}", time=units.duration(self.graph.span_ns), path=path
        )

    def below(self) -> list[str]:
        """Sentences below the picture."""
        return [*self._late(), self.longest(), *translated(self.notes), say(ONCE)]

    def _late(self) -> list[str]:
        """What could have begun earlier, once for each line; the one that lost most speaks for the others."""
        alike: dict[tuple[str, str, int, str], list[LateNode]] = {}
        for row in self.late:
            alike.setdefault((row.name, row.lane, row.line, row.function), []).append(row)
        return [
            say("{sentence}; {n} more on that line", sentence=first.sentence, n=units.count(len(more)))
            if more
            else translated(first.sentence)
            for first, *more in alike.values()
        ]


def tone_of(colour: OpClass | None) -> str:
    """The colour of what executed a node."""
    return "launch" if colour is None else CLASS_TOKENS[colour]
