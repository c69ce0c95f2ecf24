"""What it costs ranks to tell each other which operation they are in, before each operation.

    python benchmarks/rank_agreement.py [ranks ...]

Medians of many operations in a row, where nobody waits for anybody. torch.
"""

import sys

import perfmagic

CODE = """
import statistics, time, torch, torch.distributed as dist
from perfmagic.sim.groups import agreement
from perfmagic.sim.groups.gloo import Side

def median_us(do, rounds=400):
    found = []
    for i in range(rounds + 20):
        begin = time.perf_counter()
        do()
        found.append(1e6 * (time.perf_counter() - begin))
    return statistics.median(found[20:])

device = perfmagic.device() if on_sim else "cpu"
small = torch.ones(1, device=device)
def all_reduce():
    dist.all_reduce(small)
    small.fill_(1.0).sum().item()
def message():
    if rank < 2:
        dist.send(small, 1) if rank == 0 else dist.recv(small, 0)
    small.fill_(1.0).sum().item()
def unchecked(one):
    kept = agreement.Collective.__call__, agreement.Message.__call__
    def nothing(check, gloo, side, came):
        return agreement.Agreed(0, 0)
    dist.barrier()
    agreement.Collective.__call__ = agreement.Message.__call__ = nothing
    try:
        found = median_us(one)
    finally:
        agreement.Collective.__call__, agreement.Message.__call__ = kept
    dist.barrier()
    return found
rows = []
for name, one in (("all_reduce", all_reduce), ("send and recv", message)):
    without = [unchecked(one)]
    dist.barrier()
    with_it = [median_us(one)]
    without.append(unchecked(one)); dist.barrier(); with_it.append(median_us(one))
    rows.append((name, min(without), min(with_it)))
side = dist.group.WORLD.gloo.device if on_sim else dist.group.WORLD.gloo.host
rows.append({key: ns / 1e3 for key, ns in side.costs_ns.items()})
"""


def main() -> None:
    """Print a line for each operation, device and number of ranks."""
    for n in [int(word) for word in sys.argv[1:]] or [2, 4]:
        for device in ("cpu", "sim"):
            with perfmagic.ranks(n, device=device) as ranks:
                ranks.push(on_sim=device == "sim")
                ranks.run(CODE)
                *rows, costs = ranks["rows"][0]
            for name, without_us, with_us in rows:
                print(f"{n} ranks, {device}: {name} of 4 bytes {without_us:.0f} µs, {with_us:.0f} µs with agreement")
            print(f"  the least exchange seen: {costs['']:.0f} µs before a collective")


if __name__ == "__main__":
    main()
