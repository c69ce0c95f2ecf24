"""Five public models on virtual GPUs, without data, beside recordings of them: device, step, verdict, memory.

    python benchmarks/predict_models.py FOLDER [--left-out model]

FOLDER: recordings named DEVICE_MODEL.json.gz, those of AMD-AGI/TraceLens (MIT). transformers 5.23 builds the models. Of
a model whose recording is not there, the numbers stand below that were read from it before. Kernels are predicted with
parameters fitted without the model. The host's factor is that of the other models on the machine, as all were recorded
with a profiler. A verdict is open where the ends of the intervals disagree, on which both errors are independent.

A second table has DeviceModel.fit() on one recording of a machine beside another recording of the same machine.
"""

import argparse
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as tf

import perfmagic
from benchmarks.predict import ROWS, Fit, Record, read, spread_words
from perfmagic.analysis.replay.fit import LONGEST_CALL_NS, LONGEST_GAP_NS, device_time, host_time
from perfmagic.base import units
from perfmagic.base.kinds import HOST_SPREAD, PredictedFor
from perfmagic.base.numerics.intervals import total_ns, union
from perfmagic.predict import kernels
from perfmagic.trace.columns import OpKind
from perfmagic.trace.model import Trace

Build = Callable[[], tuple[Any, Callable[[Any], Any]]]
BF16 = torch.bfloat16


def bert() -> tuple[Any, Callable[[Any], Any]]:
    """gaunernst/bert-small-uncased, one text of 141 tokens."""
    shape = {"hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "intermediate_size": 2048}
    ids = torch.zeros(1, 141, dtype=torch.long)
    model = tf.BertForMaskedLM(tf.BertConfig(vocab_size=30522, **shape))
    return model, lambda m: m(input_ids=ids, attention_mask=None, token_type_ids=ids)


def vit() -> tuple[Any, Callable[[Any], Any]]:
    """Falconsai/nsfw_image_detection, 4 images."""
    images = torch.zeros(4, 3, 224, 224, dtype=BF16)
    return tf.ViTModel(tf.ViTConfig()), lambda m: m(pixel_values=images)


def qwen() -> tuple[Any, Callable[[Any], Any]]:
    """Qwen/Qwen1.5-0.5B-Chat, 16 texts of 559 tokens."""
    shape = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16}
    ids = torch.zeros(16, 559, dtype=torch.long)
    model = tf.Qwen2Model(tf.Qwen2Config(intermediate_size=2816, vocab_size=151936, use_cache=True, **shape))
    return model, lambda m: m(input_ids=ids, attention_mask=None)


def timesformer() -> tuple[Any, Callable[[Any], Any]]:
    """facebook/timesformer-base-finetuned-k400, 128 frames."""
    frames = torch.zeros(1, 128, 3, 224, 224, dtype=BF16)
    model = tf.TimesformerForVideoClassification(tf.TimesformerConfig(num_labels=400))
    return model, lambda m: m(pixel_values=frames)


def owlv2() -> tuple[Any, Callable[[Any], Any]]:
    """google/owlv2-large-patch14-ensemble, 5 calls with an image of 1008 × 1008."""
    text = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
    image = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
    image |= {"image_size": 1008, "patch_size": 14}
    config = tf.Owlv2Config(text_config={"vocab_size": 49408, **text}, vision_config=image, projection_dim=768)
    config._attn_implementation = "eager"
    ids, pixels = torch.zeros(1, 5, dtype=torch.long), torch.zeros(1, 3, 1008, 1008, dtype=BF16)

    def run(model: Any) -> None:
        for _ in range(5):
            model(input_ids=ids, pixel_values=pixels, attention_mask=torch.ones_like(ids))

    return tf.Owlv2ForObjectDetection(config), run


MODELS: dict[str, Build] = {"bert": bert, "vit": vit, "qwen": qwen, "timesformer": timesformer, "owlv2": owlv2}
GPUS = {"h100": "H100", "mi300": "MI300X"}


@dataclass(frozen=True)
class Run:
    """Device busy and step in ns, and the most memory in bytes, 0 where it was not recorded."""

    busy_ns: float
    step_ns: float
    peak_bytes: int = 0

    @property
    def verdict(self) -> str:
        share = self.busy_ns / self.step_ns
        return "device" if share > 0.85 else "host" if share < 0.55 else "mixed"


# Of recordings that are not in FOLDER, by the same rule as recorded()
READ_BEFORE = {
    ("h100", "bert"): Run(0.31e6, 4.0e6),
    ("mi300", "bert"): Run(0.39e6, 3.7e6),
    ("h100", "owlv2"): Run(551e6, 563e6),
    ("mi300", "owlv2"): Run(327e6, 337e6),
}


def recorded(trace: Trace) -> Run:
    """What a record says, of kernels with a launch.

    The step is when device or host was active: the host from its first launch on, without waits and without pauses of
    more than a millisecond, in which a program works on the CPU.
    """
    calls, ops = trace.calls, trace.ops
    launched = (ops.kind == OpKind.KERNEL) & (ops.launch >= 0)
    busy = [*zip(ops.start_ns[launched], ops.end_ns[launched], strict=True)]
    first = calls.start_ns[ops.launch[launched]].min()
    host, last = [], None
    for start, end in sorted(zip(calls.start_ns, calls.end_ns, strict=True)):
        if start < first:
            continue
        if last is not None and start - last < LONGEST_GAP_NS:
            host.append((last, start))
        if end - start < LONGEST_CALL_NS:
            host.append((start, end))
        last = end
    allocated = np.array([name == "Total Allocated" for name in trace.names], bool)[trace.counters.series]
    peak = trace.counters.value[allocated].max(initial=0)
    return Run(lasting_ns(busy), lasting_ns(busy + host), int(peak))


def lasting_ns(spans: list[Any]) -> int:
    """How long at least one of some spans lasts."""
    starts, ends = np.array(spans, np.int64).reshape(-1, 2).T
    return total_ns(union(starts, ends))


def predicted(build: Build, model: perfmagic.DeviceModel) -> Run:
    """What the virtual device says of one run; the weights are there before it begins."""
    device = perfmagic.device(model, values="none", item=1)
    torch.set_default_dtype(BF16)
    try:
        with torch.device(device), torch.no_grad():
            net, run = build()
    finally:
        torch.set_default_dtype(torch.float32)
    net.eval()
    torch.sim.reset_peak_memory_stats()
    with torch.no_grad(), perfmagic.timeline(device=device.type):
        run(net)
        torch.sim.synchronize()
    trace = perfmagic.last().trace
    kernel = trace.ops.kind == OpKind.KERNEL
    busy = lasting_ns([*zip(trace.ops.start_ns[kernel], trace.ops.end_ns[kernel], strict=True)])
    step_ns = max(int(trace.ops.end_ns.max()), int(trace.calls.end_ns.max())) - int(trace.host_ops.start_ns.min())
    return Run(busy, step_ns, torch.sim.max_memory_allocated())


# cuBLAS takes this of torch's memory at its first product on Hopper (CUDABlas.cpp, getChosenWorkspaceSize), and
# cuBLASLt 1 MiB. The virtual device has none. What hipBLAS takes is not known here.
WORKSPACE_BYTES = {"h100": 33 * 2**20, "mi300": 0}
HEAD = "| record | busy | recorded | interval | step | recorded | interval | verdict | recorded | peak | recorded |"


def host_factors(folder: Path) -> dict[tuple[str, str], float]:
    """By recording, by what the host is slower than the model's."""
    paths = {(gpu, name): recording(folder, gpu, name) for gpu in GPUS for name in MODELS}
    return {key: perfmagic.DeviceModel.fit(path).host_factor for key, path in paths.items() if path}


def without(records: list[Record], model: str, gpu: str, left_out: str) -> dict[str, float]:
    """Parameters fitted without a model, a GPU's generation, or both."""
    generation = perfmagic.DeviceModel(gpu).gpu.generation
    kept = [r for r in records if left_out == "device" or r.model != model]
    return Fit([r for r in kept if left_out == "model" or r.gpu.generation != generation]).factors()


def verdict(build: Build, model: perfmagic.DeviceModel, spread: float) -> str:
    """Device, host or mixed where all ends of the intervals agree, else open."""
    ends = [
        replace(model, device_factor=a, host_factor=b * model.host_factor) for a, b in PredictedFor("", spread).ends
    ]
    found = {predicted(build, each).verdict for each in ends}
    return found.pop() if len(found) == 1 else "open"


def row(name: str, found: Run, truth: Run, spread: float, said: str) -> list[str]:
    """Cells of the table."""
    steps = [max(found.busy_ns / spread, found.step_ns / HOST_SPREAD), found.step_ns * max(spread, HOST_SPREAD)]
    cells = [name, units.rough_duration(found.busy_ns), units.duration(truth.busy_ns)]
    cells += [ends(found.busy_ns / spread, found.busy_ns * spread, truth.busy_ns)]
    cells += [units.rough_duration(found.step_ns), units.duration(truth.step_ns), ends(*steps, truth.step_ns)]
    peaks = [units.size(found.peak_bytes), units.size(truth.peak_bytes) if truth.peak_bytes else "–"]
    return [*cells, said, truth.verdict, *peaks]


def ends(low_ns: float, high_ns: float, truth_ns: float) -> str:
    """An interval, and whether the truth is in it."""
    words = f"{units.rough_duration(low_ns)} to {units.rough_duration(high_ns)}"
    return words if low_ns <= truth_ns <= high_ns else f"{words}: OUTSIDE"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--left-out", choices=("model", "device", "both"), default="model")
    given = parser.parse_args()
    tf.PreTrainedModel.init_weights = lambda _: None  # there is no data to initialise
    models(given.folder, given.left_out)
    print()
    fits(given.folder)


def recording(folder: Path, gpu: str, name: str) -> Path | None:
    """The file of a recording, None where it is not there."""
    return next(folder.glob(f"{gpu}_{name}*.json.gz"), None)


def models(folder: Path, left_out: str) -> None:
    """Each model on each GPU beside its recording."""
    factors, records = host_factors(folder), read(ROWS)
    spread = kernels.SPREAD if left_out == "model" else kernels.SPREAD_UNSEEN
    logs: dict[str, list[float]] = {"busy": [], "step": [], "peak": []}
    verdicts: Counter[str] = Counter()
    print(HEAD + "\n" + "|---" * 11 + "|")
    for (gpu, full), (name, build) in itertools.product(GPUS.items(), MODELS.items()):
        others = [math.log(value) for (where, model), value in factors.items() if model != name and where == gpu]
        model = perfmagic.DeviceModel(full, host_factor=math.exp(float(np.mean(others))))
        with other_factors(without(records, name, full, left_out)):
            found = predicted(build, model)
            said = verdict(build, model, spread)
        path = recording(folder, gpu, name)
        truth = recorded(perfmagic.open_trace(path).trace) if path else READ_BEFORE[gpu, name]
        found = replace(found, peak_bytes=found.peak_bytes + WORKSPACE_BYTES[gpu])
        print(f"| {' | '.join(row(f'{full}, {name}', found, truth, spread, said))} |", flush=True)
        logs["busy"].append(math.log(found.busy_ns / truth.busy_ns))
        logs["step"].append(math.log(found.step_ns / truth.step_ns))
        if truth.peak_bytes and WORKSPACE_BYTES[gpu]:
            logs["peak"].append(math.log(found.peak_bytes / truth.peak_bytes))
        verdicts["right" if said == truth.verdict else "open" if said == "open" else "wrong"] += 1
    print()
    for what, errors in logs.items():
        print(f"- {what}: {spread_words(errors)}")
    print(f"- verdicts: {', '.join(f'{n} {word}' for word, n in verdicts.items())}")


@contextmanager
def other_factors(factors: dict[str, float]) -> Iterator[None]:
    """Predict with other parameters than those of the package."""
    before, kept = kernels.fitted, {**kernels.fitted(), "factors": factors}
    kernels.fitted = lambda: kept
    try:
        yield
    finally:
        kernels.fitted = before


def fits(folder: Path) -> None:
    """Kernels and host of each recording by the factors of another one of the same machine, and without factors."""
    print("| record | fitted on | kernels | recorded | unfitted | host | recorded | unfitted |\n" + "|---" * 8 + "|")
    errors: dict[str, list[float]] = {"kernels": [], "kernels, unfitted": [], "host": [], "host, unfitted": []}
    for gpu, full in GPUS.items():
        paths = [path for name in MODELS if (path := recording(folder, gpu, name))]
        for path, other in itertools.permutations(paths, 2):
            trace, model = perfmagic.open_trace(path).trace, perfmagic.DeviceModel.fit(other)
            (busy_ns, plain_ns), host = device_time(trace, model.gpu), host_time(trace)
            found = (plain_ns * model.device_factor, plain_ns), (host.assumed_ns * model.host_factor, host.assumed_ns)
            for what, truth, (fitted_ns, unfitted_ns) in zip(
                ("kernels", "host"), (busy_ns, host.recorded_ns), found, strict=True
            ):
                errors[what].append(math.log(fitted_ns / truth))
                errors[f"{what}, unfitted"].append(math.log(unfitted_ns / truth))
            cells = [f"{full}, {path.name.partition('.')[0]}", other.name.partition(".")[0]]
            for truth, (fitted_ns, unfitted_ns) in zip((busy_ns, host.recorded_ns), found, strict=True):
                cells += [units.rough_duration(fitted_ns), units.duration(truth), units.rough_duration(unfitted_ns)]
            print(f"| {' | '.join(cells)} |")
    print()
    for what, logs in errors.items():
        print(f"- {what}: {spread_words(logs)}")


if __name__ == "__main__":
    main()
