"""Wrong answers to the exercises of lesson 04: words of the reason, and the answer that gets it."""

PART = "def a_part_each(gpus, size_bytes, bytes_per_s):\n    return {result}"
PARTS = """%%ranks --plain
def parts_each(t):
    parts = list(t.chunk(world_size))
    got = torch.empty_like(parts[rank])
    for shift in range(1, world_size):
        to, source = (rank + shift) % world_size, (rank - shift) % world_size
        exchange(parts[to], to, got, source)
        {add}
    {then}
"""
IN_TURN = """%%ranks --plain
def parts_each(t):
    for root, part in enumerate(t.chunk(world_size)):
        got = torch.empty_like(part)
        for other in range(world_size):
            if other != root and rank == root:
                dist.recv(got, other)
                part.add_(got)
            elif rank == other != root:
                dist.send(part, root)
        for other in range(world_size):
            if other != root and rank in (root, other):
                dist.send(part, other) if rank == root else dist.recv(part, root)
        perfmagic.synchronize(device)
"""
RING = "def ring_s(workers, size_bytes, bytes_per_s, latency_s):\n    return {result}"
FAST = "def fast_enough(paces, compute_s):\n    return {result}"
SIZE = "160 * MB / pace.link_bytes_per_s"
LEVELS = "def two_levels_s(machines, size_bytes, inside, outside):\n    return {result}"
SHARES = "def shares(first, second):\n    return {result}"
SERVED = "def served_ms(workers, servers, size_bytes, bytes_per_s):\n    return {result}"
SUMS = """%%ranks --plain
def layer_by_layer():
    works = []
    {body}
"""
EARLY = "backward(lambda t: works.append(dist.all_reduce(t, async_op=True)))"
WAIT = "\n    for work in works:\n        work.wait()"

WRONG = {
    1: [
        ("the time with 4 GPUs is 60", PART.format(result="2 * (gpus - 1) * size_bytes / bytes_per_s * 1e3")),
        ("the time with 2 GPUs is 15", PART.format(result="15 if gpus < 1000 else 20")),
        ("the time with 4 GPUs is 20", PART.format(result="2 * size_bytes / bytes_per_s * 1e3")),
        ("the time with 4 GPUs is 0.0150", PART.format(result="2 * (gpus - 1) / gpus * size_bytes / bytes_per_s")),
    ],
    2: [
        ("one link carries too much", "%%ranks --plain\ndef parts_each(t):\n    through_one(t)"),
        ("not the sum", PARTS.format(add="parts[rank].add_(got)", then="return")),
        ("not the sum", PARTS.format(add="pass", then="return")),
        ("links wait for each other", IN_TURN),
        ("no message was sent", "%%ranks --plain\ndef parts_each(t):\n    dist.all_reduce(t)"),
    ],
    3: [
        ("the time for 160000000 bytes", RING.format(
         result="2 * (workers - 1) / workers * size_bytes / bytes_per_s + latency_s")),
        ("the time for 160000000 bytes", RING.format(
         result="2 * (workers - 1) * (latency_s + size_bytes / bytes_per_s)")),
        ("the time for 160000000 bytes", RING.format(
         result="2 * workers * (latency_s + size_bytes / workers / bytes_per_s)")),
    ],
    4: [
        ("for 0.03 s too slow: ethernet100, pcie5", FAST.format(result="list(paces)")),
        ("for 0.03 s fast enough, too: nvlink2", FAST.format(result='["nvlink4"]')),
        ("for 0.01 s too slow: nvlink2", FAST.format(result='["nvlink2", "nvlink4"]')),
        ("for 0.03 s too slow: pcie5", FAST.format(
         result=f"[name for name, pace in paces.items() if {SIZE} < compute_s / 10]")),
    ],
    5: [
        ("the time of two machines", LEVELS.format(result="2 * (machines - 1) / machines * size_bytes / outside")),
        ("the time of two machines", LEVELS.format(result="2 * size_bytes / inside + 2 * size_bytes / outside")),
        ("the time of eight machines", LEVELS.format(result="2 * size_bytes / inside + size_bytes / outside")),
    ],
    6: [
        ("with 36 and 18 GB/s the second ring is still at work", SHARES.format(result="1 / 2, 1 / 2")),
        ("the second ring is still at work", SHARES.format(
         result="second / (first + second), first / (first + second)")),
        ("with 10 and 30 GB/s the first ring is still at work", SHARES.format(result="2 / 3, 1 / 3")),
        ("the sum of both shares", SHARES.format(result="first / second, 1")),
    ],
    7: [
        ("served_ms(4, 1, ...) is 40", SERVED.format(result="1e3 * workers * size_bytes / bytes_per_s")),
        ("served_ms(4, 4, ...) is 80", SERVED.format(result="1e3 * 2 * workers * size_bytes / bytes_per_s")),
        ("served_ms(4, 1, ...) is 60", SERVED.format(
         result="1e3 * 2 * (workers - 1) * size_bytes / servers / bytes_per_s")),
    ],
    8: [
        ("0 % of the communication runs beside", SUMS.format(body="all_at_the_end()")),
        ("a wait is missing", SUMS.format(body=EARLY)),
        ("0 % of the communication runs beside", SUMS.format(body="backward(dist.all_reduce)")),
        ("before its product is done", SUMS.format(
         body=f"works = [dist.all_reduce(t, async_op=True) for t in gradients]; backward(lambda t: None){WAIT}")),
        ("5 products, not four", SUMS.format(body=f"{EARLY}; w.mm(w){WAIT}")),
    ],
}  # fmt: skip
