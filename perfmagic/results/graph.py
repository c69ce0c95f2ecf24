"""The result of %%graph: which operator depends on which, what could have run concurrently, and what did."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from perfmagic.analysis.findings.answer import Conclusion
from perfmagic.analysis.graph.graph import Graph, GraphEdge, edges, graph_of
from perfmagic.analysis.graph.late import LateNode, late_nodes
from perfmagic.analysis.graph.nodes import GraphNode
from perfmagic.base import units
from perfmagic.base.errors import CaptureError, TraceError
from perfmagic.base.language import chained, counted, phrase, translated
from perfmagic.results.result import Result
from perfmagic.trace.columns import SeenOps
from perfmagic.trace.kineto.reader import run_without_gc
from perfmagic.trace.model import Trace, devices_label, in_its_digits
from perfmagic.trace.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

    from perfmagic.analysis.graph.groups import Drawn
    from perfmagic.results.briefs.form import Brief
    from perfmagic.view.graph.doc import GraphDoc

NOTHING = phrase("no operator of torch ran")
_ON_HOST = "this machine's CPU"


@dataclass(frozen=True, eq=False)
class GraphResult(Result):
    """The operators of a cell that ran, and which of them depends on which.

    trace: the recording.  seen: what each operator read and wrote. Times are in ns of the trace.
    What it holds raises TraceError where no operator ran.
    """

    trace: Trace
    seen: SeenOps = field(default_factory=SeenOps)

    @property
    def is_empty(self) -> bool:
        """Whether no operator ran: text() and html() say so, all else raises TraceError."""
        return not self._found.nodes

    @cached_property
    def _found(self) -> Graph:
        return run_without_gc(partial(graph_of, self.trace, self.seen.ops))

    @property
    def _graph(self) -> Graph:
        if self.is_empty:
            raise TraceError(NOTHING, hint="record a cell that computes with tensors")
        return self._found

    @property
    def work_ns(self) -> int:
        """The time of all operators, added up."""
        return self._graph.work_ns

    @property
    def span_ns(self) -> int:
        """The time of the critical path: the longest chain of operators, each of which depends on the one before."""
        return self._graph.span_ns

    @property
    def elapsed_ns(self) -> int:
        """From the first operator's start to the last one's end, as executed."""
        return self._graph.elapsed_ns

    @property
    def possible_ns(self) -> int:
        """How long it takes if nothing but dependencies is waited for and each lane executes one op at a time.

        By list scheduling, so the least may be shorter; never more than elapsed_ns.
        """
        return self._graph.possible_ns

    @property
    def could(self) -> float:
        """How many operators could run concurrently, on average, with any number of lanes: work_ns ÷ span_ns."""
        return self.work_ns / max(1, self.span_ns)

    @property
    def did(self) -> float:
        """How many ran concurrently, on average: work_ns ÷ elapsed_ns. Below 1 where nothing ran at times."""
        return self.work_ns / max(1, self.elapsed_ns)

    @cached_property
    def _nodes(self) -> Rows[GraphNode]:
        return Rows(self._graph.nodes, GraphNode).labelled(self.trace.predicted_label)

    def nodes(self) -> Rows[GraphNode]:
        """Every operator: its lane, its time (ns), the line that called it, by how much it could have begun earlier."""
        return self._nodes

    def edges(self) -> Rows[GraphEdge]:
        """Every dependency: of which node, on which one, through data or through memory that is used again (bytes)."""
        return edges(self._graph)

    def longest(self) -> Rows[GraphNode]:
        """The operators of the critical path, in order; their times add up to span_ns."""
        graph = self._graph
        return Rows([graph.nodes[i] for i in graph.chain], GraphNode).labelled(self.trace.predicted_label)

    @cached_property
    def _late(self) -> Rows[LateNode]:
        return late_nodes(self.trace, self._graph).labelled(self.trace.predicted_label)

    def late(self) -> Rows[LateNode]:
        """Operators that could have begun earlier, where that lost 5 % of elapsed_ns or more, and what kept them."""
        return self._late

    def to_frame(self) -> pd.DataFrame:
        """One row per operator, as nodes(). Needs pandas."""
        return self.nodes().to_frame()

    def to_networkx(self) -> Any:
        """The graph as a networkx.DiGraph: nodes by number, edges from an operator to what depends on it.

        Nodes and edges have the columns of nodes() and edges() as attributes. Raises CaptureError without networkx.
        """
        try:
            import networkx as nx  # type: ignore[import-untyped]  # it has no stubs of its own
        except ImportError:
            message = "to_networkx() needs networkx, which is not installed"
            raise CaptureError(message, hint="pip install networkx") from None
        made = nx.DiGraph()
        for node in self.nodes().to_dict():
            made.add_node(node["number"], **node)
        for edge in self.edges().to_dict():
            made.add_edge(edge["needs"], edge["of"], kind=edge["kind"], size_bytes=edge["size_bytes"])
        return made

    @cached_property
    def conclusion(self) -> Conclusion:
        """What decides how long it took, and what to do about it, in English."""
        from perfmagic.analysis.graph.answers import conclude

        concluded = conclude(self.trace, self._graph, self._late)
        return replace(concluded, warnings=(*concluded.warnings, *self._left_out()))

    @property
    def sentence(self) -> str:
        """What decides how long it took, with the numbers."""
        return translated(self.conclusion.decides)

    @property
    def _about(self) -> str:
        """The operators and their work, how many could run at once on average (`could`), and how many did."""
        graph = self._graph
        return counted(
            len(graph.nodes),
            "{n} operator · {work} of work in {lanes} · on average dependencies allow {could} at once, {did} ran",
            "{n} operators · {work} of work in {lanes} · on average dependencies allow {could} at once, {did} ran",
            work=units.duration(graph.work_ns),
            could=units.significant(self.could, 2),
            lanes=counted(len(graph.lanes), "{n} lane", "{n} lanes"),
            did=units.significant(self.did, 2),
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON; times in ns. Without operators only a note that says so."""
        if self.is_empty:
            return {"note": self._nothing()}
        return {
            "conclusion": self.conclusion.to_dict(),
            "work_ns": self.work_ns,
            "span_ns": self.span_ns,
            "elapsed_ns": self.elapsed_ns,
            "possible_ns": self.possible_ns,
            "could": self.could,
            "did": self.did,
            "lanes": list(self._graph.lanes),
            "nodes": self.nodes().to_dict(),
            "edges": self.edges().to_dict(),
            "late": self.late().to_dict(),
            "notes": self._notes(),
        }

    @in_its_digits
    def text(self, *, details: bool = False) -> str:
        """What decides and what to do.  details: lanes, what could have begun earlier, the critical path, notes."""
        from perfmagic.view.graph.picture import graph_text

        return translated(self._nothing()) if self.is_empty else graph_text(self._doc(), details=details)

    @in_its_digits
    def html(self) -> str:
        """What decides and what to do, the picture, and the rest, which opens with a click."""
        from perfmagic.view.graph.picture import graph_html, nothing_html

        return nothing_html(translated(self._nothing())) if self.is_empty else graph_html(self._doc())

    def markdown(self) -> str:
        """What decides and what to do, and the work of each lane, as GitHub's Markdown."""
        from perfmagic.view.graph.picture import graph_markdown

        return f"{translated(self._nothing())}\n" if self.is_empty else graph_markdown(self._doc())

    def svg(self) -> str:
        """The picture: what depends on what, step by step, and both schedules below it."""
        from perfmagic.view.graph.picture import graph_svg

        return graph_svg(self._doc())

    def _nothing(self) -> str:
        nothing, failed = phrase("Graph: {nothing}", nothing=self._unread() or NOTHING), self.trace.meta.failed
        return chained("{a}. {b}", (nothing, phrase("The code failed: {failed}", failed=failed) if failed else ""))

    def _unread(self) -> str:
        if not self.seen.unread:
            return ""
        return counted(
            self.seen.unread,
            "{n} operator used tensors of unknown memory and is left out",
            "{n} operators used tensors of unknown memory and are left out",
        )

    def _notes(self) -> list[str]:
        return [*self._remarks(), *self._left_out()]

    def _remarks(self) -> list[str]:
        return [remark.words for remark in self.trace.meta.notes]

    def _left_out(self) -> list[str]:
        """What the graph lacks, which may change what it says."""
        lacks = []
        if self.seen.dropped:
            lacks.append(
                f"{units.plural(self.seen.dropped, 'further operator')} came after the limit, and are left out"
            )
        if self.seen.unread:
            lacks.append(self._unread())
        if self._found.n_unseen:
            n = units.plural(self._found.n_unseen, "device op")
            lacks.append(f"{n} came from no operator that was seen (another thread, a graph), and are left out")
        return lacks

    @cached_property
    def _drawn(self) -> Drawn:
        from perfmagic.analysis.graph.groups import drawn

        return drawn(self._graph)

    def _doc(self) -> GraphDoc:
        from perfmagic.view.graph.doc import GraphDoc

        graph = self._graph
        used = {int(self.trace.ops.device[row]) for node in graph.placed for row in node.rows}
        infos = [info for info in self.trace.meta.devices if info.index in used]
        return GraphDoc(
            device=devices_label(infos) or _ON_HOST,
            failed=self.trace.meta.failed,
            conclusion=self.conclusion,
            about=self._about,
            graph=graph,
            drawn=self._drawn,
            late=self.late(),
            notes=tuple(self._remarks()),
        )

    @in_its_digits
    def _brief(self) -> Brief:
        from perfmagic.results.briefs.runs import graph_brief

        if self.is_empty:
            return graph_brief(self.trace, Conclusion(self._nothing()))
        names = ("work_ns", "span_ns", "elapsed_ns", "possible_ns")
        return graph_brief(self.trace, self.conclusion, {name: getattr(self, name) for name in names}, self.late())

    def __repr__(self) -> str:
        return self._nothing() if self.is_empty else f"Graph: {self.sentence} · {self._about}"
