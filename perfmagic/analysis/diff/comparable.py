"""Whether two timelines can be compared, and what a reader of the comparison must know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from perfmagic.analysis.diff.side import Side
from perfmagic.analysis.diff.work import BOTH, RESHAPED, KernelChange, OperatorChange, has_shapes
from perfmagic.analysis.timeline.trust import sample, trust
from perfmagic.base import units
from perfmagic.base.units import listed
from perfmagic.trace.model import DeviceInfo
from perfmagic.trace.rows import Rows

ONE_RUN = "one run each, so no statistics: how much two runs of one program differ is not known"
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
        or _nothing_in_common(first, second, operators, kernels)
        or _other_inputs(first, second, operators)
        or _other_amount(first, second, operators, repeats)
    )


def _failed(first: Side, second: Side) -> str:
    failed = [f"the code of {side.name} failed ({side.facts.failed})" for side in (first, second) if side.facts.failed]
    return " and ".join(failed)


def _sampled(first: Side, second: Side) -> str:
    """What a sample lacks is unknown: the other may have it."""
    samples = [side.name for side in (first, second) if side.sampled]
    if not samples:
        return ""
    several = len(samples) == 2
    are = (
        f"{listed(samples)} look like samples of recordings" if several else f"{samples[0]} looks like a sample of one"
    )
    return f"{are}, so that counts and totals differ by what was kept"


def _without_ops(first: Side, second: Side) -> str:
    without = [side.name for side in (first, second) if side.device is None]
    if len(without) == 2:
        return (
            f"neither {first.name} nor {second.name} has device ops; operators are compared by their time on the host"
        )
    return f"{without[0]} has no device ops" if without else ""


def _other_device(first: Side, second: Side) -> str:
    a, b = first.info, second.info
    if a is None or b is None or "unknown" in (a.kind, b.kind):
        return ""
    named = _is_named(a) and _is_named(b) and not a.simulated
    if (a.kind, a.pace) == (b.kind, b.pace) and (a.name == b.name or not named):
        return ""
    return f"{first.name} ran on {_describe_device(a)}, {second.name} on {_describe_device(b)}"


def _is_named(info: DeviceInfo) -> bool:
    """Whether the record says what device it was, and not only which."""
    return info.name != f"device {info.index}"


def _describe_device(info: DeviceInfo) -> str:
    if info.simulated:
        return f"a {info.label}"
    return info.label if _is_named(info) else f"a {_MAKERS.get(info.kind, info.kind)} device without a name"


def _nothing_in_common(first: Side, second: Side, operators: Rows[OperatorChange], kernels: Rows[KernelChange]) -> str:
    """By operator with its inputs, or by kernel."""
    common = {row.name for row in kernels if row.n_a} & {row.name for row in kernels if row.n_b}
    places = {(row.name, row.shape) for row in operators if row.change == BOTH}
    shared = [
        _share(kernels, f"total_{which}_ns", lambda row: row.name in common or (row.operator, row.shape) in places)
        for which in "ab"
    ]
    if max(shared) >= IN_COMMON_FRAC:
        return ""
    both = "nothing" if not max(shared) else f"less than {units.percent(IN_COMMON_FRAC)} of their device time"
    return f"{first.name} and {second.name} have {both} in common, by operators with their inputs and by kernels"


def _other_inputs(first: Side, second: Side, operators: Rows[OperatorChange]) -> str:
    """Work of other shapes is other work, whatever it is called."""
    shares = _other_shapes(operators)
    if min(shares) < OTHER_WORK_FRAC:
        return ""
    each = [f"{units.percent(share)} of {side.name}" for side, share in zip((first, second), shares, strict=True)]
    return f"they work on inputs of other shapes, for {' and '.join(each)} by device time"


def _other_shapes(operators: Rows[OperatorChange]) -> tuple[float, float]:
    """How much of the device time of each is of operators that the other has with other inputs only."""
    a, b = (_share(operators, f"device_{which}_ns", lambda row: row.change == RESHAPED) for which in "ab")
    return a, b


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
    return f"{second.name} does the same work {times} times as often, and steps that could be compared are not marked"


def notes(first: Side, second: Side, operators: Rows[OperatorChange], repeats: tuple[int, int]) -> tuple[str, ...]:
    """What a reader must know beside the numbers, in sentences."""
    return (
        *_about_samples(first, second),
        ONE_RUN,
        *_about_work(first, second, operators, repeats),
        *_about_devices(first, second),
        *_about_origin(first, second),
        *_about_shapes(first, second, operators),
        *_about_trust(first, second),
    )


def _about_samples(first: Side, second: Side) -> Iterator[str]:
    for side in (first, second):
        if remark := sample(side.trace):
            yield f"{side.name}: {remark.words}"
    if first.sampled or second.sampled:
        yield "only means of a run can be compared; new, gone and replaced work is not told"


def _about_work(first: Side, second: Side, operators: Rows[OperatorChange], repeats: tuple[int, int]) -> Iterator[str]:
    a, b = len(first.steps), len(second.steps)
    if repeats != (1, 1):
        yield (
            f"{first.name} has {units.plural(a, 'step')}, {second.name} {units.count(b)}: times and differences are of "
            "one step, the mean; operators and kernels are counted in all steps"
        )
    elif a != b:
        marked, other = (first, second) if a else (second, first)
        marks = f"{marked.name} has {units.plural(max(a, b), 'step')}, {other.name} marks none"
        yield f"{marks}: the whole recordings are compared"
    often = times_as_often(operators, repeats)
    if often != 1:
        per = "in each step " if repeats != (1, 1) or (a and a == b) else ""
        yield f"{second.name} ran {per}the operators that both have {units.significant(float(often))} times as often"


def _about_devices(first: Side, second: Side) -> Iterator[str]:
    for side in (first, second):
        if side.facts.n_devices > 1:
            used = f"{side.name} used {side.facts.n_devices} devices"
            yield f"{used}: times by class and by part are those of device {side.device}, the busiest"
    for side in (first, second):
        if side.info is not None and not _is_named(side.info):
            yield f"the record of {side.name} does not name its device"


def _about_origin(first: Side, second: Side) -> Iterator[str]:
    a, b = first.facts, second.facts
    if a.rank != b.rank and a.rank is not None and b.rank is not None:
        yield f"{a.name} is rank {a.rank}, {b.name} rank {b.rank}"
    if a.world_size != b.world_size and a.world_size and b.world_size:
        yield f"{a.name} ran on {a.world_size} ranks, {b.name} on {b.world_size}"
    if a.torch_version != b.torch_version and a.torch_version and b.torch_version:
        yield f"{a.name} was recorded with torch {a.torch_version}, {b.name} with {b.torch_version}"


def _about_shapes(first: Side, second: Side, operators: Rows[OperatorChange]) -> Iterator[str]:
    without = [side.name for side in (first, second) if len(side.trace.host_ops) and not has_shapes(side.trace)]
    if without:
        words = f"{' and '.join(without)} recorded no input shapes: operators are matched by name"
        simulated = first.trace.simulated or second.trace.simulated  # records none, whatever is asked for
        yield words if simulated else f"{words} (record_shapes=True records them)"
    if first.sampled or second.sampled:  # what the other has, it may have had as well
        return
    for side, share in zip((first, second), _other_shapes(operators), strict=True):
        if share >= OTHER_SHAPES_FRAC:
            words = f"{units.percent(share)} of the device time of {side.name} is of operators that the other has"
            yield f"{words} with inputs of other shapes only: the two may not compute the same"


def _about_trust(first: Side, second: Side) -> Iterator[str]:
    for side in (first, second):
        known = trust(side.trace)
        if side.by_step and (n := int((~side.counted).sum())):
            words = f"{side.name}: {units.plural(n, 'device op was', 'device ops were')} launched by none of its steps"
            yield f"{words} and {'is' if n == 1 else 'are'} left out"
        elif n := known.n_orphans:
            words = f"{side.name}: {units.plural(n, 'device op was', 'device ops were')} launched before the recording"
            yield f"{words}: their time is a part of its own"
        if n := known.n_without_launch:
            words = f"{side.name}: {units.plural(n, 'device op has', 'device ops have')} no launch record"
            yield f"{words}, so no operator is known for them"
        if known.n_dropped_events:
            events = units.plural(known.n_dropped_events, "event was", "events were")
            yield f"{side.name}: {events} left out by a limit"
