"""What one rule says about a trace: its findings, or why it has none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from perfmagic.analysis.findings.communication import waits_for_rank
from perfmagic.analysis.findings.device_time import device_time
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.find import (
    BUSY,
    EXPOSED,
    FOR_HOST,
    IDLE,
    WITHOUT_DURATIONS,
    WITHOUT_TIME,
    Outcomes,
    all_for_host,
    idle_parts,
    together,
    tree,
    verdict_finding,
)
from perfmagic.analysis.findings.finding import Finding, Outcome, Silent
from perfmagic.analysis.findings.gains import Gains
from perfmagic.base.errors import OptionError
from perfmagic.base.language import chained, phrase, say, translated
from perfmagic.base.options import did_you_mean
from perfmagic.base.tables import html_block
from perfmagic.base.terminal import cut_to_columns, width
from perfmagic.trace.json_form import JsonForm
from perfmagic.trace.model import Trace, in_its_digits
from perfmagic.trace.rows import Rows

PAGE = "docs/findings.md"


@dataclass(frozen=True, repr=False)
class Explanation(JsonForm):
    """What one rule says about a trace: what it found, or why it is silent.

    rule: its name, as in `.findings`.  findings: what it found, without the gain that `t.findings` predicts.
    silent: why it found nothing, with a reason for each case that it knows.
    """

    shown: ClassVar[tuple[str, ...]] = ("rule", "sentence")  # in a table of rules
    left_out = ("silent",)
    computed = ("reason", "value", "threshold", "docs")

    rule: str
    findings: tuple[Finding, ...]
    silent: tuple[Silent, ...] = ()

    @property
    def finding(self) -> Finding | None:
        """The first of its findings; None if it is silent."""
        return self.findings[0] if self.findings else None

    @property
    def reason(self) -> str:
        """Why it is silent, "" where it found something."""
        return chained("{a}; {b}", dict.fromkeys(silent.reason for silent in self.silent))

    @property
    def value(self) -> float | None:
        """The first number below its threshold, in ns or a count as the reason says; None if there is none."""
        return next((silent.value for silent in self.silent if silent.value is not None), None)

    @property
    def threshold(self) -> float | None:
        """What that number was compared with."""
        return next((silent.threshold for silent in self.silent if silent.value is not None), None)

    @property
    def sentence(self) -> str:
        """The sentences of its findings, or "silent: " and the reason."""
        found = chained("{a} | {b}", [finding.sentence for finding in self.findings])
        return found or phrase("silent: {reason}", reason=self.reason)

    @property
    def docs(self) -> str:
        """Where the rule is documented."""
        return f"{PAGE}#{self.rule}"

    def text(self) -> str:
        """The rule, then a line for each finding or reason, then where it is documented."""
        sentences = [finding.sentence for finding in self.findings]
        lines = sentences or [silent.reason for silent in dict.fromkeys(self.silent)]
        said = say("{rule}: found", rule=self.rule) if sentences else say("{rule}: silent", rule=self.rule)
        return "\n".join([said, *(f"  {translated(line)}" for line in lines), self.docs])

    def __repr__(self) -> str:
        return self.text()


class Explanations(Rows[Explanation]):
    """What every rule says about a trace, one line per rule."""

    __slots__ = ()

    def __init__(self, rows: Iterable[Explanation]) -> None:
        super().__init__(rows, Explanation)

    def text(self) -> str:
        """A line for each rule, as wide as the terminal."""
        longest, room = max(len(row.rule) for row in self), width()
        return "\n".join(cut_to_columns(f"{row.rule:{longest}}  {translated(row.sentence)}", room) for row in self)

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return html_block(self._title, self._shown(len(self)), [])

    def to_dict(self) -> list[dict[str, Any]]:
        """Ready for JSON, a dict for each rule."""
        return [row.to_dict() for row in self]


@in_its_digits
def explain(trace: Trace, rule: str, comm_names: str | None = None) -> Explanation:
    """What one rule says; only what it needs is computed.

    comm_names: as in perfmagic.trace.names.op_classes. Raises OptionError if there is no such rule.
    """
    check_rule(rule)
    return _explained(Outcomes(Facts(trace, comm_names)), rule)


@in_its_digits
def explain_all(trace: Trace, comm_names: str | None = None) -> Explanations:
    """What every rule says."""
    outcomes = Outcomes(Facts(trace, comm_names))
    return Explanations(_explained(outcomes, rule) for rule in RULES)


def check_rule(rule: object) -> None:
    """Raise OptionError with the closest name if there is no such rule."""
    if rule not in RULES:
        hint = f"{did_you_mean(str(rule), RULES)}there are {', '.join(RULES)}"
        raise OptionError(f"explain: there is no rule {rule!r}", hint=hint)


def _explained(outcomes: Outcomes, rule: str) -> Explanation:
    said = [ask(outcomes) for ask in RULES[rule]]
    findings = tuple(finding for outcome in said for finding in outcome)
    silent = () if findings else tuple(outcome for outcome in said if isinstance(outcome, Silent))
    return Explanation(rule, findings, silent)


Ask = Callable[[Outcomes], Outcome]


# functions whose findings have other names; all others are named like their findings
OTHER_NAMES = {
    **dict.fromkeys(("began_late", "start_up", "went_on_alone"), "alone"),
    "repeated_gap_queued": "repeated_gap",
    "slower_copies": "pageable",
}


def _rules() -> dict[str, list[Ask]]:
    """How to ask each function that finds something, by the finding's name."""
    asks: dict[str, list[Ask]] = defaultdict(list)
    asks["verdict"].append(_verdict)
    asks["waited_for_host"].append(partial(_asked, (), lambda outcomes: all_for_host(outcomes, idle_parts(outcomes))))
    for chain in (FOR_HOST, IDLE, EXPOSED):
        for claim in chain:
            ask = partial(Outcomes.claim, chain=chain, rule=claim)
            asks[_name(claim)].append(partial(_asked, chain, ask))
    asks["longest_gap"].append(partial(_asked, (), lambda outcomes: idle_parts(outcomes).gap))
    asks["pageable"].append(partial(_asked, EXPOSED, Outcomes.slower_copies))
    asks["waits_for_rank"].append(partial(_asked, EXPOSED, partial(Outcomes.outcome, rule=waits_for_rank)))
    asks["device_time"].append(partial(_asked, BUSY, partial(Outcomes.outcome, rule=device_time)))
    for rules in (BUSY, WITHOUT_TIME, WITHOUT_DURATIONS):
        for rule in rules:
            asks[_name(rule)].append(partial(_asked, rules, partial(Outcomes.outcome, rule=rule)))
    asks["together"].append(partial(_asked, (), _together))
    return dict(asks)


def _name(rule: Callable[..., Outcome]) -> str:
    return OTHER_NAMES.get(rule.__name__, rule.__name__)


def _asked(chain: Any, ask: Ask, outcomes: Outcomes) -> Outcome:
    lacks = outcomes.lacks(chain)
    return ask(outcomes) if lacks is None else lacks


def _verdict(outcomes: Outcomes) -> Outcome:
    trace = outcomes.facts.trace
    empty = not len(trace.ops) and not trace.has_host_rows
    return Silent(phrase("neither device nor host was recorded")) if empty else [verdict_finding(outcomes)]


def _together(outcomes: Outcomes) -> Outcome:
    gains = Gains(outcomes.facts)
    nodes, head = tree(outcomes, gains)
    return together(nodes, head, gains)


RULES = _rules()
