"""Open one saved trace with one tool and run its analyses; open_trace.py measures this process from outside.

    python benchmarks/open_trace_with.py TOOL FILE

Prints one JSON object of what the tool found, to show that it read the whole file. Imports little beside the tool.
"""

import contextlib
import io
import json
import sys
from importlib import import_module
from typing import Any


def perfmagic(file: str) -> dict[str, Any]:
    """The whole report: busy, idle, overlap, queues, launches, memory and findings of every device."""
    result = import_module("perfmagic").open_trace(file)
    report = result.to_dict()
    return {"device_ops": len(result.trace.ops), "report_fields": len(report)}


def text(file: str) -> dict[str, Any]:
    """The verdict and what to do, as `python -m perfmagic report FILE` prints them."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = import_module("perfmagic.cli").main(["report", file])
    return {"status": status, "lines": len(printed.getvalue().splitlines())}


def hta(file: str) -> dict[str, Any]:
    """Six analyses of the rank in the file's folder: where time, kernels and idling go, overlap, launches, queues."""
    folder = file.rpartition("/")[0]
    analysis = import_module("hta.trace_analysis").TraceAnalysis(trace_dir=folder, include_last_profiler_step=True)
    ranks = analysis.t.get_ranks()  # several analyses take rank 0 for granted
    analysis.get_temporal_breakdown(visualize=False)
    analysis.get_gpu_kernel_breakdown(visualize=False)
    analysis.get_idle_time_breakdown(ranks=ranks, visualize=False, visualize_pctg=False)
    analysis.get_comm_comp_overlap(visualize=False)
    analysis.get_cuda_kernel_launch_stats(ranks=ranks, visualize=False)
    analysis.get_queue_length_summary(ranks=ranks)
    return {"device_ops": sum(int((analysis.t.get_trace(rank)["stream"] >= 0).sum()) for rank in ranks)}


def tb_profiler(file: str) -> dict[str, Any]:
    """Parse and aggregate a file, then all views of the plugin: overview, operators, kernels, memory, modules."""
    parser = import_module("torch_tb_profiler.profiler.data").RunProfileData
    views = import_module("torch_tb_profiler.profiler.run_generator").RunGenerator
    data = parser.parse("worker", None, file, file.rpartition("/")[0])
    run = views("worker", None, data).generate_run_profile()
    ops = sum(event.type in ("Kernel", "Memcpy", "Memset") for event in data.events)
    return {"device_ops": ops, "views": [view.name for view in run.views]}


if __name__ == "__main__":
    tool, path = sys.argv[1:]
    print(json.dumps({"perfmagic": perfmagic, "text": text, "hta": hta, "tb_profiler": tb_profiler}[tool](path)))
