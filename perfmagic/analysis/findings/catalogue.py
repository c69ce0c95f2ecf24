"""Every headline and action of an answer, by name, with named values."""

from __future__ import annotations

from typing import NamedTuple

from perfmagic.base.language import Words, counted, phrase

HEADLINE_CHARS, ACTION_CHARS = 70, 90  # at most, with the values in

# What decides how long a run takes.
DECIDES = {
    "device-bound": "The device decides: it was busy {share} of the time",
    "device-bound, several": "The devices decide: at least one was busy {share} of the time",
    "copy-bound": "Copies decide: {time} of {total}",
    "communication-bound": "Communication decides: {time} of {total}",
    "host-bound": "Python decides: the device waited for it {share} of the time",
    "host-bound, queue": "Python decides: nothing was queued ahead for {share} of the time",
    "host-bound, path": "Python decides: with its calls, {time} of {total} on the critical path",
    "start-up": "Start-up decides: the device got nothing for {time} of {total}",
    "start-up, in a step": "Python decides: the device got nothing for {time} of {total}",
    "host tail": "Python decides: it worked on for {time} of {total} after the last op",
    "latency-bound": "Launch latency decides: ops are too short to hide it",
    "stalled": "Open: the record does not say why the device was idle",
    "stalled, late": "Open: the first op began {time} late; then the device was busy {share}",
    "stalled, one gap": "Open: one early gap of {time} is unexplained; then the device was busy {share}",
    "mixed": "Python and the device take turns",
    "mixed, shares": "Python and the device take turns: {host} and {device} of the time",
    "mixed, latency": "The device and launch latency take turns: {device} and {latency} of the time",
    "mixed, launches": "Python and launch latency take turns: {host} and {latency} of the time",
    "mixed, unexplained": "Open: the record explains {share} of the time",
    "mixed, both": "Python and the device keep pace: the device was busy {share} of the time",
    "open": "Open: {a} or {b}; the intervals of the prediction overlap",
    "open, unknown": "Open: {n} without a model may take any time",
    "device-bound, at least": "The device decides: it was busy at least {share} of the time",
    "no device records": "No device was used",
    "no device records, file": "No device activity is in the record",
    "no device records, launches": "Device work was not recorded: {n}, no kernels",
    "no verdict": "Open: too many durations are missing for a verdict",
    "no verdict, one op": "Open: one device op is too little for a verdict",
    "no verdict, cut": "Open: the file is cut, and the rest of the recording is missing",
    "no verdict, sample": "Open: the file looks like a sample of a recording",
    "no verdict, graphs": "Open: the ops of CUDA graphs look incomplete",
    "failed": "The code failed before its end",
}

# Findings: a fact, with a name from the user's code.
HEADLINES = {
    "race": "Streams {a} and {b} share memory without a wait",
    "start_up": "{time} passed before the first device op",
    "start_up_in": "{time} passed before the first device op, in {name}",
    "cold": "{time} of cold start before the first device op",
    "cold_in": "{time} of cold start before the first op, in {name}",
    "mid_flight": "The record begins while earlier work still runs: {n}, {time}",
    "stacks": "Recording Python's stacks slowed Python",
    "first_launches": "Kernels load at their first launch: {time}",
    "first_call": "{call} starts the device or a library: {time}",
    "first_calls": "{call} and other calls start the device: {time}",
    "allocations": "The allocator asks the driver for memory: {time}",
    "retries": "The allocator frees memory to make space: {time}",
    "pinning": "The driver pins host memory: {time}",
    "driver_calls": "{call} blocked Python for {time}",
    "one_by_one": "{n} small ops, launched one by one",
    "many_collectives": "{n} are launched one by one",
    "ddp_buckets": "DDP copies gradients out of its buckets",
    "ddp_buffers": "DDP broadcasts the model's buffers before each forward",
    "repeated_gap": "Python delays the device {n} times, {time} in all",
    "repeated_gap_in": "Python in {name} delays the device {n} times",
    "many_gaps": "Python leaves {n} gaps between ops, {time} in all",
    "many_gaps_in": "Python in {name} leaves {n} gaps, {time}",
    "longest_gap": "The device stood idle for {time}",
    "longest_gap_in": "The device stood idle for {time}: {name}",
    "between_ops": "The device waits for Python between ops",
    "zero_grad": "Gradients are filled with zeros: {n}",
    "data_loading": "Loading data kept the device waiting for {time}",
    "sync": "{call} stops Python {n} times",
    "sync_once": "{call} stops Python for {time}",
    "pageable": "Copies from pageable memory block Python: {n}",
    "indexing": "Indexing copies {n} from the CPU each time",
    "repeated_copy": "A loop copies `{name}` to the device {n} times, unchanged",
    "slow_copies": "Copies from pageable memory are slow: {time} more than pinned ones",
    "exposed_copy": "{time} of copies overlap no compute",
    "exposed_communication": "{time} of communication overlaps no compute",
    "waits_for_rank": "Collectives waited {time} for another rank",
    "eager_attention": "Attention runs in separate kernels: {time}",
    "tensor_cores": "{time} of {what} runs without tensor cores",
    "unaligned_gemm": "Unaligned sizes slow matrix products: {time}",
    "low_occupancy": "Kernels fill a part of the device for {time}",
    "tiny_kernels": "Half of the {n} take {time} or less",
    "fusible": "Elementwise kernels take {time} of device time",
    "fusible_softmax": "Elementwise kernels and softmax take {time} of device time",
}

# The same without a time, for answers with a predicted gain, which may differ from that time.
HEADLINES_WITHOUT_TIME = {
    "start_up": "Python works before the first device op",
    "start_up_in": "Python is in {name} before the first device op",
    "allocations": "The allocator asks the driver for memory",
    "retries": "The allocator frees memory to make space",
    "pinning": "The driver pins host memory",
    "driver_calls": "{call} blocks Python",
    "repeated_gap": "Python delays the device {n} times",
    "many_gaps": "Python leaves {n} gaps between ops",
    "many_gaps_in": "Python in {name} leaves {n} gaps",
    "data_loading": "The device waits for data to be loaded",
    "slow_copies": "Copies from pageable memory are slow",
    "exposed_copy": "Exposed copies lengthen the run",
    "exposed_communication": "Exposed communication lengthens the run",
    "eager_attention": "Attention runs in separate kernels",
    "tensor_cores": "Tensor cores are not used by {what}",
    "unaligned_gemm": "Unaligned sizes slow matrix products",
    "fusible": "Elementwise kernels run one after another",
    "fusible_softmax": "Elementwise kernels and softmax run one after another",
    "transfer": "Exposed data transfer lengthens the run",
    "waits_for_rank": "Collectives wait for another rank",
}
_COLD = "The record is cold: it includes what only first calls do"
HEADLINES_WITHOUT_TIME |= dict.fromkeys(("cold", "cold_in", "first_launches", "first_call", "first_calls"), _COLD)

# If there is no remedy: what limits the run.
HEADLINES |= {
    "most_of_device": "{name} takes {share} of the device's time",
    "device_is_limit": "The device had work nearly all the time",
    "devices_in_turn": "The devices take turns: {n} of {devices} work at once, on average",
    "copies_beside": "Copies overlap compute already, but take as long or longer",
    "late_python": "The device waits for Python",
    "python_first": "Python works before the first device op",
    "python_last": "Python keeps working after the last device op",
    "short_ops": "Each op is shorter than its launch",
    "wait_in_turn": "Python and the device wait for each other",
    "queued_idle": "Ops were queued, yet the device ran none for {time}",
    "not_recorded": "The record does not show what the device waited for",
    "host_alone": "Only the host was recorded",
    "cpu_alone": "All work ran on the CPU",
    "one_op": "The record holds one device op",
    "coarse_model": "The model is too coarse to say whether Python or the device decides",
    "no_model": "No model of {names}: times are lower bounds",
    "cut_file": "The file lacks a part of the recording",
    "incomplete_record": "The record cannot say what the device waited for",
}

# What to do, in the imperative. Answers with the same action are one answer.
ACTIONS = {
    "wait_stream": "Call wait_stream() on stream {a}: it waits for stream {b}",
    "warm_up": "Record a warm run: run the code once before recording",
    "expandable_segments": "Set PYTORCH_ALLOC_CONF=expandable_segments:True, or keep shapes constant",
    "keep_pinned": "Keep pinned buffers and reuse them",
    "smaller_batches": "Use smaller batches, or PYTORCH_ALLOC_CONF=expandable_segments:True",
    "compile_or_graphs": "Use torch.compile, or capture the step with CUDA graphs",
    "graphs": "Capture the step with CUDA graphs",
    "fuse_by_inductor": "Use torch.compile's default backend, or CUDA graphs",
    "reduce_overhead": 'Use torch.compile(mode="reduce-overhead")',
    "prepare": "Prepare inputs beforehand, or record only steady steps",
    "prepare_ahead": "Prepare the inputs of the next step meanwhile, in another process",
    "batch": "Batch the work: Python waits {n} times between these ops",
    "fewer_ops": "Do the work of line {line} in fewer, larger ops",
    "bucket_view": "Set DistributedDataParallel(…, gradient_as_bucket_view=True)",
    "no_broadcast": "Set DistributedDataParallel(…, broadcast_buffers=False) if ranks may differ",
    "ahead_of_time": "Do the work of {name} ahead of time",
    "record_stacks": "Record with torch.profiler's with_stack=True: it names this Python code",
    "set_to_none": "Call zero_grad(set_to_none=True)",
    "workers": "Set DataLoader(…, num_workers=…), so that it fetches ahead",
    "more_workers": "Raise num_workers or prefetch_factor of the DataLoader",
    "read_later": "Read the values once, after the loop",
    "pin": "Use pin_memory() and .to(…, non_blocking=True)",
    "copy_once": "Copy it once before the loop, and keep it on the device",
    "keep_indices": "Keep index and values on the device",
    "prefetch": "Copy the next batch on another stream while this one computes",
    "read_on_stream": "Copy results on another stream, and wait before they are read",
    "one_buffer": "Put the tensors of these collectives into one buffer, as DDP does",
    "bucket": "Put small tensors into one buffer, as DDP does with its buckets",
    "last_bucket": "Compare all ranks, and check the links between them",
    "open_ranks": "Open all ranks' files: this rank waits for another",
    "sdpa": "Use torch.nn.functional.scaled_dot_product_attention",
    "tf32": 'Call torch.set_float32_matmul_precision("high"), or use autocast to bfloat16',
    "autocast_half": "Use torch.autocast to float16",
    "channels_last": "Use autocast and memory_format=torch.channels_last",
    "pad": "Pad sizes to multiples of 8",
    "fuse": "Use torch.compile: it fuses neighbouring kernels",
    "less_work": "Do less work here: fewer or smaller inputs, or lower precision",
    "leave_python": "Leave Python alone: only less device work saves time",
    "feed_devices": "Give each device work while another one works: split batches, or use several",
    "see_python": "Look at what Python does then: t.flame() shows its functions",
    "record_lines": "Record with lines=True: t.flame() then shows what Python does",
    "see_lines": "Record the cell with `%%timeline`: it shows the line that takes this time",
    "fewer_larger": "Queue fewer, larger ops: launching them takes most of Python's time",
    "larger_ops": "Give each op more work: fewer, larger tensors",
    "queue_ahead": "Queue the next work before Python waits for results",
    "overlap": "Overlap it with compute, or move fewer bytes",
    "fewer_bytes": "Move fewer bytes, in lower precision or less often",
    "other_work": "Look for other work on the device: another process, or unrecorded ops",
    "virtual_clock": "Run it again, or on a virtual clock: this device is a thread, which had to wait for a core",
    "record_device": "Record the device, too: ProfilerActivity.CUDA in the profiler's activities",
    "jax_device": "Run it where jax.devices() lists a GPU",
    "use_device": "Create the tensors on a device, such as perfmagic.device()",
    "fewer_for_both": "Queue fewer ops: that saves time of Python and of the device",
    "record_step": "Record a whole step, or several runs of this op",
    "export_again": "Copy or export the file again",
    "record_whole": "Record again: keep every event, and a whole step",
}

# For the ranks of one job.
DECIDES |= {
    "late": "{late}: that costs {time} of {total}",
    "ranks_cores": "Cores decide: {ranks} on {cores} wait for one, which looks like transfer",
    "in_turn": "No single rank is late: the median rank waits {time} for others",
    "ranks_host_bound": "Python decides on {ranks}: devices waited for it {share} of the time",
    "ranks_device_bound": "The device decides on {ranks}: it was busy {share} of the time",
    "ranks_mixed": "Python and the devices take turns: {host} and {device} of the time",
    "ranks_cpu_unknown": "Open: what the CPU computed on each rank is not recorded",
    "ranks_sampled": "Open: incomplete recordings do not say which rank is late",
}
HEADLINES |= {
    "late_on_line": "Line {line} takes {time} more on {ranks}{when}",
    "late_on_line_in": "Line {line} ({phase}) takes {time} more on {ranks}{when}",
    "late_in": "{name} takes {time} more on {ranks}{when}",
    "late_for_core": "Waiting for a core takes {time} more on {ranks}{when}",
    "slow_link": "{kind} with {ranks} takes {n} × as long as without",
    "uneven_all_to_all": "Rank {rank} moves {n} × its peers' bytes in all_to_all",
    "pipeline_even": "Pipeline of {stages}: bubble {share}, {schedule} needs {least}",
    "pipeline_stage": "Stage {stage} on rank {rank} sets the pace: bubble {share}, minimum {least}",
    "pipeline_open": "Pipeline of {stages}: bubble {share} of its time",
    "pipeline_python": "Every stage of {stages} waits for Python, which works {share} of the time",
    "late_at_work": "Work takes {time} more on {ranks}{when}",
    "late_in_compute": "Rank {rank} computes {time} longer than {others}",
    "late_in_copies": "Rank {rank} copies {time} longer than {others}",
    "ranks_start_up": "Start-up: ranks began up to {time} apart, rank {rank} last",
    "ranks_in_turn": "Ranks wait in turn, {time} each: no rank stands out",
    "transfer": "{time} of data transfer overlaps no compute",
    "ranks_wait_for_python": "Devices of {ranks} waited {time} for Python",
    "rank_waits": "The device of rank {rank} waits {time} longer for Python",
    "on_ranks": "On {ranks}: {fact}",
    "like_most": "On {ranks}, such as rank {rank}: {fact}",
}
ACTIONS |= {
    "late_line": "Look at {place} on {ranks}: {code}",
    "late_in": "Look at {name} on {ranks}",
    "slow_link": "Check the links of {ranks}: NIC, cable, switch, and what else they carry",
    "uneven_all_to_all": "Balance the rows for rank {rank}: router, expert capacity, split sizes",
    "pipeline_even": "Run {n} micro-batches a step: the minimum bubble is then {share}",
    "pipeline_stage": "Move layers from stage {stage} on rank {rank} to the other stages",
    "pipeline_open": "Run more micro-batches a step, or move layers between stages",
    "less_python": "Give Python less work in a stage: fewer, larger ops, or torch.compile",
    "late_work": "Give {ranks} as much work as the others: rows, sequence lengths, experts",
    "late_kernels": "Compare the kernels of rank {rank} with those of another rank",
    "late_copies": "Compare the copies of rank {rank} with those of another rank",
    "balance": "Give each rank equal work per step: sequence lengths, experts, CPU load",
    "own_python": "Look at the findings of rank {rank}, and at the load of its CPU",
    "threads": "Call torch.set_num_threads({n}) in each rank",
    "fewer_ranks": "Run no more ranks than cores",
    "fewer_streams": "Run fewer ranks: each stream of a simulated device is a thread",
    "other_load": "Look at what else runs on the cores of rank {rank}",
}

# For the dependencies between a cell's operators.
DECIDES |= {
    "graph_python": "Python decides: it holds ops back for {time} of {total}",
    "graph_waits": "Python's waits decide: they hold ops back for {time} of {total}",
    "graph_stream": "The order in a stream decides: it costs up to {time} of {total}",
    "graph_latency": "Launch latency decides: it holds ops back for {time} of {total}",
    "graph_order": "The order of calls decides: it costs up to {time} of {total}",
    "graph_path": "The critical path decides: {time} of {total}",
    "graph_lane": "One lane decides: {lane} has {time} of work in {total}",
    "graph_both": "Dependencies and lanes decide: {time} of {total} is the least with these lanes",
}
HEADLINES |= {
    "called_late": "Python calls {name} {time} late",
    "many_called_late": "Python calls {n} of {place} late: {time} in all",
    "independent": "{pair} are independent",
    "held": "{name} waits {time} behind ops of its stream",
}
ACTIONS |= {
    "sync_later": "Synchronise once, after all work is queued",
    "non_blocking": "Use .to(…, non_blocking=True)",
    "queue_before": "Queue {place} before line {line} waits",
    "call_earlier": "Call it earlier: its inputs and its lane were ready",
    "two_streams": "Queue one on another stream, with wait_stream() where the results meet",
    "own_stream": "Queue it on another stream, with wait_stream() on both sides",
}

# For the memory of a cell.
DECIDES |= {
    "peak": "Peak {size}{place}: {part} is {what}",
    "peak_and": "Peak {size}{place}: {part} is {what}, {part2} is {what2}",
    "peak_before": "Peak {size} {before}: {part} is {what}",
}
HEADLINES |= {
    "graph_without_backward": "{size} is kept for a backward pass, and none follows in this cell",
    "graph_of_rounds": "`{name}` keeps the graph of every iteration",
    "round_outlived": "`{name}` of an iteration lives until line {line} has run again",
    "late_zero_grad": "Line {line} frees gradients after the forward pass has allocated",
    "grows_with_batch": "{size} grows with the batch",
    "grows_but_gradients": "{size} grows with the batch; half goes, {stays} of gradients stay",
    "kept_for_backward": "{size} is kept for the backward pass",
    "kept_in_function": "{size} is kept for the backward pass, most in {function}",
    "held_before": "`{name}` holds {size} from before the cell",
    "gradients_before": "Gradients of an earlier step hold {size}",
    "step_temporaries": "Temporaries of the optimizer's step take {size}",
}
ACTIONS |= {
    "no_grad": "Put {lines} under `torch.no_grad()` if you do not train on it",
    "store_item": "Store `{name}.item()` in `{container}`, and `del {name}` after it",
    "store_detached": "Store `{name}` in `{container}`",
    "delete_in_round": "Run `del {name}` at the end of the iteration",
    "delete_before": "Run `del {name}` before this cell, if nothing needs it",
    "zero_grad_first": "Call zero_grad() before the forward pass",
    "zero_grad_after": "Call zero_grad(set_to_none=True) after the last step",
    "half_batch": "Accumulate gradients over two half batches",
    "half_batch_instead": "Accumulate gradients over two half batches instead",
    "checkpoint": "Recompute it: torch.utils.checkpoint.checkpoint(…, use_reentrant=False)",
    "no_foreach": "Set foreach=False in the optimizer",
}

# For a cell on different numbers of ranks.
DECIDES |= {
    "scaling": "{kind} scaling from {first} to {ranks} is {share} efficient: {time}, ideally {ideal}",
}
HEADLINES |= {
    "lost_to_transfer": "{time} more of data transfer overlaps no compute",
    "lost_to_waiting": "{time} more is waiting for other ranks",
}


_KEYS = {template: key for key, template in HEADLINES.items()}
_ACTION_KEYS = {template: key for key, template in ACTIONS.items()}
_DECIDER_KEYS = {template: key for key, template in DECIDES.items()}
OPEN = frozenset(key for key in DECIDES if key.startswith(("stalled", "no verdict", "open"))) | {"mixed, unexplained"}

# Nouns for counts.
COUNTED = {
    "collective": ("{n} collective", "{n} collectives"),
    "copy": ("{n} copy", "{n} copies"),
    "kernel": ("{n} kernel", "{n} kernels"),
    "launch": ("{n} launch", "{n} launches"),
    "op": ("{n} op", "{n} ops"),
    "operator": ("{n} operator", "{n} operators"),
    "tensor": ("{n} tensor", "{n} tensors"),
    "time": ("{n} time", "{n} times"),
}


def headline(key: str, /, **values: object) -> Words:
    """A headline with its values."""
    return phrase(HEADLINES[key], **values)


def headline_key(fact: str) -> str:
    """Which entry of HEADLINES a headline is; "" for other words."""
    return _KEYS.get(fact.template, "") if isinstance(fact, Words) else ""


def without_time(fact: str) -> str:
    """A headline for an answer with a predicted gain, which has the times."""
    if not isinstance(fact, Words):
        return fact
    if isinstance(inner := fact.values.get("fact"), str):  # of several ranks
        return phrase(fact.template, **fact.values | {"fact": without_time(inner)})
    key = headline_key(fact)
    return phrase(HEADLINES_WITHOUT_TIME[key], **fact.values) if key in HEADLINES_WITHOUT_TIME else fact


def action(key: str, /, **values: object) -> Words:
    """An action with its values."""
    return phrase(ACTIONS[key], **values)


def decider_key(decider: str) -> str:
    """Which entry of DECIDES a decider is."""
    return _DECIDER_KEYS[decider.template] if isinstance(decider, Words) else ""


def action_key(what: str) -> str:
    """Which entry of ACTIONS an action is: the stable name of what to do; "" for other words."""
    return _ACTION_KEYS.get(what.template, "") if isinstance(what, Words) else ""


def decides(key: str, /, **values: object) -> Words:
    """What decides, with the values."""
    return phrase(DECIDES[key], **values)


def count_things(n: int, thing: str) -> Words:
    """A count with its noun: "3 launches"."""
    return counted(n, *COUNTED[thing])


class Remedy(NamedTuple):
    """What to do, as a sentence after the others, and as the action of an answer; empty if unknown."""

    advice: str = ""
    action: str = ""
