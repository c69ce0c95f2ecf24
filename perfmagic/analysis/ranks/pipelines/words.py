"""A pipeline in words: how much of its time is bubble, which stage sets the pace, and what to do."""

from __future__ import annotations

from perfmagic.analysis.findings.catalogue import action, headline
from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.pipelines.bubble import Pipeline, Stage, pipelines_of
from perfmagic.analysis.ranks.ranks import Ranks
from perfmagic.base import units
from perfmagic.base.language import Words, chained, counted, phrase, sentences

SMALL_BUBBLE_FRAC = 0.1  # of the time: more micro-batches win little then
MORE = 2  # times the micro-batches, as advice
MOST_STAGES = 8  # stages in a sentence
WARM = 1  # the step that is shown: the one before warms up


def bubbles(job: Ranks) -> list[RankFinding]:
    """A finding for each pipeline."""
    return [_finding(pipeline) for pipeline in pipelines_of(job)]


def _finding(pipeline: Pipeline) -> RankFinding:
    slowest, share = pipeline.slowest, units.percent(pipeline.bubble_frac)
    n = counted(len(pipeline.stages), "{n} stage", "{n} stages")
    facts = sentences(*_python(pipeline), _schedule(pipeline), *_balancing(pipeline), *_rows(pipeline))
    return RankFinding(
        rule="pipeline",
        cost_ns=pipeline.gain_ns if slowest else None,
        cause=phrase("a pipeline of {stages} idles {share} of its time", stages=n, share=share),
        detail=phrase(": {detail}", detail=facts),
        ranks=(slowest.rank,) if slowest else tuple(stage.rank for stage in pipeline.stages),
        headline=_headline(pipeline, n, share),
        action=_action(pipeline),
        window_ns=pipeline.steps_ns[: WARM + 1][-1],
    )


def _python(pipeline: Pipeline) -> tuple[Words, ...]:
    """That no stage sets the pace, but what launches the work of all."""
    if not pipeline.python_frac:
        return ()
    waits = units.percent(pipeline.python_frac)
    return (phrase("every stage waits for Python, which works {share} of that time at least", share=waits),)


def _headline(pipeline: Pipeline, n: Words, share: str) -> Words:
    if pipeline.python_frac:
        return headline("pipeline_python", stages=n, share=units.percent(pipeline.python_frac))
    if pipeline.least_frac is None:
        return headline("pipeline_open", stages=n, share=share)
    least = units.percent(pipeline.least_frac)
    if pipeline.slowest:
        at = {"stage": pipeline.slowest.stage, "rank": pipeline.slowest.rank}
        return headline("pipeline_stage", share=share, least=least, **at)
    return headline("pipeline_even", stages=n, share=share, least=least, schedule=pipeline.schedule)


def _action(pipeline: Pipeline) -> Words | str:
    if pipeline.python_frac:
        return action("less_python")
    if pipeline.slowest:
        return action("pipeline_stage", stage=pipeline.slowest.stage, rank=pipeline.slowest.rank)
    if pipeline.bubble_frac < SMALL_BUBBLE_FRAC:
        return ""
    if pipeline.least_frac is None:
        return action("pipeline_open")
    more = MORE * pipeline.n_micro_batches
    least = units.percent(pipeline.least_with(more))
    return action("pipeline_even", n=more, share=least)


def _schedule(pipeline: Pipeline) -> Words:
    if pipeline.least_frac is None:
        return phrase("the minimum of its schedule is not known")
    return phrase(
        "the minimum of {schedule} with {n} and {stages} is {least}",
        schedule=pipeline.schedule,
        n=counted(pipeline.n_micro_batches, "{n} micro-batch a step", "{n} micro-batches a step"),
        stages=counted(len(pipeline.stages), "{n} stage", "{n} stages"),
        least=units.percent(pipeline.least_frac),
    )


def _balancing(pipeline: Pipeline) -> tuple[Words, ...]:
    if pipeline.slowest is None:
        return ()
    return (
        phrase(
            "with stage {stage} as fast as the others in the median the job takes {time} less",
            stage=pipeline.slowest.stage,
            time=units.duration(pipeline.gain_ns),
        ),
    )


def _rows(pipeline: Pipeline) -> tuple[str, ...]:
    """Per stage what a micro-batch takes, and how long it idles; of a long pipeline the first ones and the slowest."""
    shown = [*pipeline.stages[:MOST_STAGES]]
    if pipeline.slowest and pipeline.slowest not in shown:
        shown[-1] = pipeline.slowest
    return (chained("{a}; {b}", [_row(stage) for stage in shown]),)


def _row(stage: Stage) -> Words:
    return phrase(
        "stage {stage} (rank {rank}): forward {forward}, backward {backward}, idle {idle}",
        stage=stage.stage,
        rank=stage.rank,
        forward=units.duration(stage.forward_ns),
        backward=units.duration(stage.backward_ns),
        idle=units.duration(stage.idle_ns),
    )
