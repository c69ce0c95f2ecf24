"""Whether two timelines can be compared, and what a reader of the comparison must know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from perfmagic.analysis.diff.side import Side
from perfmagic.analysis.diff.work import BOTH, RESHAPED, KernelChange, OperatorChange, dtypes, has_shapes
from perfmagic.analysis.timeline.trust import cut_or_sampled, trust
from perfmagic.base import units
from perfmagic.base.kinds import HOST_SPREAD
from perfmagic.base.language import counted, listed, phrase
from perfmagic.predict.ratio import describe_layouts, of_two_gpus, ratio_range, times_by_op
from perfmagic.trace.model import DeviceInfo
from perfmagic.trace.rows import Rows

ONE_RUN = phrase("one run each, so no statistics: how much two runs of one program differ is not known")
# of the device time of both: where so much is of operators that ran k times as often, the second holds the same k times
SAME_WORK_FRAC = 0.9
IN_COMMON_FRAC = (
    0.2  # of the device time of either: unrelated programs share a tenth, by the names of elementwise kernels
)
OTHER_WORK_FRAC = 0.5  # of the device time of both: then the inputs make the difference, not the program
OTHER_SHAPES_FRAC = 0.1  # of the device time of either: less does not change what the comparison says

_MAKERS = {"cuda": "CUDA", "rocm": "ROCm"}


def unlike(
    first: Side, second: Side, operators: Rows[OperatorChange], kernels: Rows[KernelChange], repeats: tuple[int, int]
) -> str:
    """Why no verdict can be given, in a sentence; "" where it can."""
    return (
        _failed(first, second)
        or _sampled(first, second)
        or _without_ops(first, second)
        or _other_device(first, second)
        or _within_prediction(first, second)
        or _nothing_in_common(first, second, operators, kernels)
        or _other_inputs(first, second, operators)
        or _other_amount(first, second, operators, repeats)
    )


def not_comparable(
    first: Side, second: Side, operators: Rows[OperatorChange], kernels: Rows[KernelChange], repeats: tuple[int, int]
) -> str | None:
    """Why the times of steps may not decide a gate, in a sentence; None where they may.

    Unlike a verdict, a gate needs no device ops, and nothing but the code may differ: two GPUs are two GPUs, also where
    models gave the times of both.
    """
    return (
        _failed(first, second)
        or _sampled(first, second)
        or ("" if _on_host(first, second) else _without_ops(first, second))
        or _other_device(first, second)
        or _other_models(first, second)
        or _other_ranks(first, second)
        or _nothing_in_common(first, second, operators, kernels)
        or _other_inputs(first, second, operators)
        or _other_dtypes(first, second, operators)
        or _other_amount(first, second, operators, repeats)
        or None
    )


def _on_host(first: Side, second: Side) -> bool:
    """Whether neither has device ops: then operators count by their time on the host."""
    return first.device is None and second.device is None


def _failed(first: Side, second: Side) -> str:
    return listed(
        [
            phrase("the code of {name} failed ({why})", name=side.name, why=side.facts.failed)
            for side in (first, second)
            if side.facts.failed
        ]
    )


def _sampled(first: Side, second: Side) -> str:
    """What a sample lacks is unknown: the other may have it."""
    samples = [side.name for side in (first, second) if side.sampled]
    if not samples:
        return ""
    return counted(
        len(samples),
        "{names} lacks a part of its recording, so counts and totals depend on what was kept",
        "{names} lack parts of their recordings, so counts and totals depend on what was kept",
        names=listed(samples),
    )


def _without_ops(first: Side, second: Side) -> str:
    without = [side.name for side in (first, second) if side.device is None]
    if len(without) == 2:
        return phrase(
            "neither {a} nor {b} has device ops; operators are compared by their time on the host",
            a=first.name,
            b=second.name,
        )
    return phrase("{name} has no device ops", name=without[0]) if without else ""


def _other_device(first: Side, second: Side) -> str:
    a, b = first.info, second.info
    if a is None or b is None or "unknown" in (a.kind, b.kind) or (a.predicted and b.predicted):
        return ""
    named = _is_named(a) and _is_named(b) and not a.simulated
    if (a.kind, a.pace) == (b.kind, b.pace) and (a.name == b.name or not named):
        return ""
    devices = {"a_device": _describe_device(a), "b_device": _describe_device(b)}
    return phrase("{a} ran on {a_device}, {b} on {b_device}", a=first.name, b=second.name, **devices)


def _other_models(first: Side, second: Side) -> str:
    """That models of two GPUs gave the times, or that the host's were measured in one of them only."""
    a, b = first.info, second.info
    if a is None or b is None or not (a.predicted and b.predicted):
        return ""
    if (a.predicted, a.host_measured) == (b.predicted, b.host_measured):
        return ""
    devices = {"a_device": _describe_device(a), "b_device": _describe_device(b)}
    return phrase("{a} ran on {a_device}, {b} on {b_device}", a=first.name, b=second.name, **devices)


def _other_ranks(first: Side, second: Side) -> str:
    """That the two ran on other numbers of ranks or devices."""
    a, b = first.facts, second.facts
    names = {"a": a.name, "b": b.name}
    if a.world_size != b.world_size and a.world_size and b.world_size:
        return phrase("{a} ran on {n} ranks, {b} on {other}", n=a.world_size, other=b.world_size, **names)
    if a.n_devices != b.n_devices:
        return phrase("{a} used {n} devices, {b} {other}", n=a.n_devices, other=b.n_devices, **names)
    return ""


def _within_prediction(first: Side, second: Side) -> str:
    """That two predicted runs differ by no more than the models of their GPUs leave open."""
    a, b = (side.info.predicted if side.info is not None else None for side in (first, second))
    hosts = {side.info.host_measured for side in (first, second) if side.info is not None}
    if a is None or b is None or first.facts.whole_ns == second.facts.whole_ns:
        return ""
    whole_ns = first.facts.whole_ns, second.facts.whole_ns
    if a != b:
        low, high = of_two_gpus(*whole_ns, a, b)
    elif len(hosts) > 1:
        off = max(a.spread, HOST_SPREAD)
        low, high = whole_ns[0] / whole_ns[1] / off, whole_ns[0] / whole_ns[1] * off
    else:
        low, high = ratio_range(times_by_op(first.trace), times_by_op(second.trace), a.spread)
    if not low < 1 < high:
        return ""
    names = {"a": first.name, "b": second.name, "low": units.significant(low, 2), "high": units.significant(high, 2)}
    if a != b:
        return phrase(
            "which is faster is unclear: {a} on {gpu} takes × {low} to × {high} as long as {b} on {other}",
            **names,
            gpu=a.gpu,
            other=b.gpu,
        )
    return phrase("{a} takes × {low} to × {high} as long as {b} on {gpu}, as far as its model says", **names, gpu=a.gpu)


def _is_named(info: DeviceInfo) -> bool:
    """Whether the record says what device it was, and not only which."""
    return info.name != f"device {info.index}"


def _describe_device(info: DeviceInfo) -> str:
    if info.predicted is not None:
        spread = f"{info.predicted.spread:g}"
        return phrase("a model of {gpu}, predicted to ÷ × {spread}", gpu=info.predicted.gpu, spread=spread)
    if info.simulated:
        return phrase("a {device}", device=info.label)
    if _is_named(info):
        return info.label
    return phrase("a {maker} device without a name", maker=_MAKERS.get(info.kind, info.kind))


def _nothing_in_common(first: Side, second: Side, operators: Rows[OperatorChange], kernels: Rows[KernelChange]) -> str:
    """By operator with its inputs, or by kernel; without device ops by operator."""
    if _on_host(first, second):
        on_host = max(_share(operators, f"host_{which}_ns", lambda row: row.change == BOTH) for which in "ab")
        words = phrase("{a} and {b} have no operators with the same inputs in common", a=first.name, b=second.name)
        return "" if on_host >= IN_COMMON_FRAC else words
    common = {row.name for row in kernels if row.n_a} & {row.name for row in kernels if row.n_b}
    places = {(row.name, row.shape) for row in operators if row.change == BOTH}
    shared = [
        _share(kernels, f"total_{which}_ns", lambda row: row.name in common or (row.operator, row.shape) in places)
        for which in "ab"
    ]
    if max(shared) >= IN_COMMON_FRAC:
        return ""
    share = phrase("less than {share} of their device time", share=units.percent(IN_COMMON_FRAC))
    return phrase(
        "{a} and {b} have {share} in common, by operators with their inputs and by kernels",
        a=first.name,
        b=second.name,
        share=share if max(shared) else phrase("nothing"),
    )


def _other_inputs(first: Side, second: Side, operators: Rows[OperatorChange]) -> str:
    """Work of other shapes is other work, whatever it is called."""
    on_host = _on_host(first, second)
    shares = _other_shapes(operators, "host" if on_host else "device")
    if min(shares) < OTHER_WORK_FRAC:
        return ""
    parts = _parts_of(first, second, shares)
    if on_host:
        return phrase("they work on inputs of other shapes, for {parts} by time on the host", parts=parts)
    return phrase("they work on inputs of other shapes, for {parts} by device time", parts=parts)


def _parts_of(first: Side, second: Side, shares: tuple[float, float]) -> str:
    return listed(
        [
            phrase("{share} of {name}", share=units.percent(share), name=side.name)
            for side, share in zip((first, second), shares, strict=True)
        ]
    )


def _other_shapes(operators: Rows[OperatorChange], what: str = "device") -> tuple[float, float]:
    """How much of the time of each is of operators that the other has with other inputs only.  what: whose time."""
    a, b = (_share(operators, f"{what}_{which}_ns", lambda row: row.change == RESHAPED) for which in "ab")
    return a, b


def _other_dtypes(first: Side, second: Side, operators: Rows[OperatorChange]) -> str:
    """Work in another precision is other work."""
    known, what = [dtypes(side.work) for side in (first, second)], "host" if _on_host(first, second) else "device"

    def other(row: OperatorChange) -> bool:
        a, b = (types.get((row.name, row.shape)) for types in known)
        return bool(a and b and a != b)

    a, b = (_share(operators, f"{what}_{which}_ns", other) for which in "ab")
    if min(a, b) < OTHER_WORK_FRAC:
        return ""
    return phrase("they work on inputs of other types, for {parts}", parts=_parts_of(first, second, (a, b)))


def _share(rows: Rows[Any], column: str, chosen: Callable[[Any], bool]) -> float:
    """The share of a column's sum that some rows have, 0 where there is no sum."""
    whole = sum(getattr(row, column) for row in rows)
    return sum(getattr(row, column) for row in rows if chosen(row)) / whole if whole else 0.0


def repeats_of(first: Side, second: Side) -> tuple[int, int]:
    """The steps by which times are divided; (1, 1) where both have as many steps, or one has no marks."""
    n = len(first.steps), len(second.steps)
    return (1, 1) if n[0] == n[1] or 0 in n else n


def times_as_often(operators: Rows[OperatorChange], repeats: tuple[int, int]) -> Fraction:
    """How many times as often the second ran what both ran, of a step where steps are compared; 1 where that varies."""
    weights: Counter[Fraction] = Counter()  # device time by ratio
    for row in operators:
        if row.change == BOTH and row.device_a_ns and row.device_b_ns:
            often = Fraction(row.n_calls_b * repeats[0], row.n_calls_a * repeats[1])
            weights[often] += row.device_a_ns + row.device_b_ns
    if not weights:
        return Fraction(1)
    ratio, ns = weights.most_common(1)[0]
    whole_ns = sum(row.device_a_ns + row.device_b_ns for row in operators)
    return ratio if ns >= SAME_WORK_FRAC * whole_ns else Fraction(1)


def _other_amount(first: Side, second: Side, operators: Rows[OperatorChange], repeats: tuple[int, int]) -> str:
    """Without marks of steps, a recording that does the same more often is no slower one; of two cells it is."""
    often = times_as_often(operators, repeats)
    if often == 1 or (len(first.steps) and len(second.steps)) or first.as_cell:
        return ""
    times = units.significant(float(often))
    return phrase(
        "{name} does the same work {n} times as often, and steps that could be compared are not marked",
        name=second.name,
        n=times,
    )


def notes(first: Side, second: Side, operators: Rows[OperatorChange], repeats: tuple[int, int]) -> tuple[str, ...]:
    """What a reader must know beside the numbers, in sentences."""
    return (
        *_about_samples(first, second),
        ONE_RUN,
        *_about_work(first, second, operators, repeats),
        *_about_devices(first, second),
        *_about_origin(first, second),
        *_about_shapes(first, second, operators),
        *filter(None, [describe_layouts(first.trace, second.trace, (first.name, second.name))]),
        *_about_trust(first, second),
    )


def _about_samples(first: Side, second: Side) -> Iterator[str]:
    for side in (first, second):
        if remark := cut_or_sampled(side.trace):
            yield phrase("{a}: {b}", a=side.name, b=remark.words)
    if first.sampled or second.sampled:
        yield phrase("only means of a run can be compared; new, gone and replaced work is not listed")


def _about_work(first: Side, second: Side, operators: Rows[OperatorChange], repeats: tuple[int, int]) -> Iterator[str]:
    a, b = len(first.steps), len(second.steps)
    if repeats != (1, 1):
        yield phrase(
            "{a} has {steps}, {b} {n}: times and differences are of one step, the mean; operators and kernels are "
            "counted in all steps",
            a=first.name,
            steps=counted(a, "{n} step", "{n} steps"),
            b=second.name,
            n=units.count(b),
        )
    elif a != b:
        marked, other = (first, second) if a else (second, first)
        yield phrase(
            "{a} has {steps}, {b} marks none: the whole recordings are compared",
            a=marked.name,
            steps=counted(max(a, b), "{n} step", "{n} steps"),
            b=other.name,
        )
    often = times_as_often(operators, repeats)
    if often != 1:
        per = phrase("in each step ") if repeats != (1, 1) or (a and a == b) else ""
        yield phrase(
            "{name} ran {per_step}the operators that both have {n} times as often",
            name=second.name,
            per_step=per,
            n=units.significant(float(often)),
        )


def _about_devices(first: Side, second: Side) -> Iterator[str]:
    for side in (first, second):
        if side.facts.n_devices > 1:
            yield phrase(
                "{name} used {n} devices: times by class and by part are those of device {device}, the busiest",
                name=side.name,
                n=side.facts.n_devices,
                device=side.device,
            )
    for side in (first, second):
        if side.info is not None and not _is_named(side.info):
            yield phrase("the record of {name} does not name its device", name=side.name)


def _about_origin(first: Side, second: Side) -> Iterator[str]:
    a, b = first.facts, second.facts
    if a.rank != b.rank and a.rank is not None and b.rank is not None:
        yield phrase("{a} is rank {rank}, {b} rank {other}", a=a.name, rank=a.rank, b=b.name, other=b.rank)
    if a.world_size != b.world_size and a.world_size and b.world_size:
        yield phrase("{a} ran on {n} ranks, {b} on {other}", a=a.name, n=a.world_size, b=b.name, other=b.world_size)
    if a.torch_version != b.torch_version and a.torch_version and b.torch_version:
        versions = {"version": a.torch_version, "other": b.torch_version}
        yield phrase("{a} was recorded with torch {version}, {b} with {other}", a=a.name, b=b.name, **versions)


def _about_shapes(first: Side, second: Side, operators: Rows[OperatorChange]) -> Iterator[str]:
    without = [side.name for side in (first, second) if len(side.trace.host_ops) and not has_shapes(side.trace)]
    if without:
        words = phrase("{names} recorded no input shapes: operators are matched by name", names=listed(without))
        simulated = first.trace.simulated or second.trace.simulated  # records none, whatever is asked for
        yield words if simulated else phrase("{words} (record_shapes=True records them)", words=words)
    if first.sampled or second.sampled:  # what the other has, it may have had as well
        return
    for side, share in zip((first, second), _other_shapes(operators), strict=True):
        if share >= OTHER_SHAPES_FRAC:
            yield phrase(
                "{share} of the device time of {name} is of operators that the other has with inputs of other shapes "
                "only: the two may not compute the same",
                share=units.percent(share),
                name=side.name,
            )


def _about_trust(first: Side, second: Side) -> Iterator[str]:
    for side in (first, second):
        known = trust(side.trace)
        if side.by_step and (n := int((~side.counted).sum())):
            yield counted(
                n,
                "{name}: {n} device op was launched by none of its steps and is left out",
                "{name}: {n} device ops were launched by none of its steps and are left out",
                name=side.name,
            )
        elif n := known.n_orphans:
            yield counted(
                n,
                "{name}: {n} device op was launched before the recording: its time is listed separately",
                "{name}: {n} device ops were launched before the recording: their time is listed separately",
                name=side.name,
            )
        if n := known.n_without_launch:
            yield counted(
                n,
                "{name}: {n} device op has no launch record, so no operator is known for it",
                "{name}: {n} device ops have no launch record, so no operator is known for them",
                name=side.name,
            )
        if n := known.n_dropped_events:
            yield counted(
                n,
                "{name}: {n} event was left out by a limit",
                "{name}: {n} events were left out by a limit",
                name=side.name,
            )
