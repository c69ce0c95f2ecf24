"""Programs with a planted fault, fixed by a script that reads nothing but the first finding of their briefs.

    python benchmarks/planted_faults.py [--out FILE] [PART OF A NAME ...]

Each fault is a cell with code before it. The script records the cell, takes the first finding of `brief()` that has a
remedy, and applies the edit of that remedy: one table of edits serves all faults. It records the edited cell. Only then
does it look at the right fix, which is written beside the fault: a fault counts as fixed where the edited cell gained
80 % of what the right fix gains, or more. Half of the faults are those of the findings' own tests; the others were
written for this. Times are of a virtual clock, or of a simulated device with real waits; bytes are the CPU's.
"""

import argparse
import io
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

ENOUGH = 0.8  # of what the right fix gains
H100 = 'device = perfmagic.device("H100", clock="virtual", item=0.5)'
PACED = 'device = perfmagic.device("sim", clock="virtual", pace="matmul=2ms, kernels=20us, copies=0.5GB/s")'
REAL = 'device = perfmagic.device("sim", clock="real", pace="matmul=2ms, kernels=20us")'
CPU = 'device = perfmagic.device(clock="real") and torch.device("cpu")'


@dataclass(frozen=True)
class Fault:
    """A program with a fault.

    known: whether the findings' own tests have such a program.  device: code that makes it.  before: code before the
    cell.  cell: with the fault.  right, right_before: both as they should be; before where that does not change.
    """

    name: str
    known: bool
    device: str
    before: str
    cell: str
    right: str
    right_before: str = ""

    @property
    def magic(self) -> str:
        return "%%memory --device cpu" if self.device == CPU else "%%timeline"


@dataclass(frozen=True)
class Program:
    """What is edited.  before, cell: code."""

    before: str
    cell: str


# What each remedy means as an edit. at: lines of the cell, from 2, as the magic is line 1.  do: the order in words.

Edit = Callable[[Program, list[int], str], Program]


def edit_line(pattern: str, new: str) -> Edit:
    """Replace a pattern on the lines that are named, or wherever it is if none is."""

    def edit(program: Program, at: list[int], _do: str) -> Program:
        rows = program.cell.split("\n")
        chosen = [line - 2 for line in at] or range(len(rows))
        for i in chosen:
            rows[i] = re.sub(pattern, new, rows[i])
        return Program(program.before, "\n".join(rows))

    return edit


def edit_before(pattern: str, new: str) -> Edit:
    """Replace a pattern in the code before the cell."""
    return lambda program, _at, _do: Program(re.sub(pattern, new, program.before), program.cell)


def pinned(program: Program, at: list[int], _do: str) -> Program:
    """Pin what the loop goes over, and copy it without blocking."""
    changed = edit_line(r"\.to\(device\)", ".to(device, non_blocking=True)")(program, at, "")
    named = re.search(r"for .* in (\w+):", program.cell)
    more = f"\n{named[1]} = [each.pin_memory() for each in {named[1]}]" if named else ""
    return Program(program.before + more, changed.cell)


def hoisted(program: Program, at: list[int], _do: str) -> Program:
    """Put the first line that is named before the loop around it, if it is no loop itself."""
    rows = program.cell.split("\n")
    if not at or rows[at[0] - 2].endswith(":"):
        return program
    line = rows.pop(at[0] - 2)
    loop = max((i for i, row in enumerate(rows[: at[0] - 2]) if row.startswith("for ")), default=0)
    rows.insert(loop, line.strip())
    return Program(program.before, "\n".join(rows))


def indices_kept(program: Program, at: list[int], _do: str) -> Program:
    """Put what indexes on the device, before the cell."""
    rows = program.cell.split("\n")
    named = re.search(r"\[(\w+)\]", "\n".join(rows[line - 2] for line in at) or program.cell)
    return Program(program.before + (f"\n{named[1]} = {named[1]}.to(device)" if named else ""), program.cell)


def without_graph(program: Program, at: list[int], do: str) -> Program:
    """Put the lines under torch.no_grad()."""
    named = [int(line) for line in re.findall(r"\d+", do)] or at
    rows = program.cell.split("\n")
    for line in named:
        row = rows[line - 2]
        space = row[: len(row) - len(row.lstrip())]
        rows[line - 2] = f"{space}with torch.no_grad():\n{space}    {row.lstrip()}"
    return Program(program.before, "\n".join(rows))


def in_words(program: Program, _at: list[int], do: str) -> Program:
    """Do what stands in backticks: store it instead, delete it at the end of the loop or before the cell."""
    code = re.findall(r"`([^`]+)`", do)
    if do.startswith("Store"):
        stored, container = code[:2]
        name = stored.split(".")[0]
        stores = rf"( *){container}\.append\({name}\)"
        after = "".join(rf"\n\1{each}" for each in code[2:])
        return Program(program.before, re.sub(stores, rf"\1{container}.append({stored}){after}", program.cell))
    if "before this cell" in do:
        return Program(f"{program.before}\n{code[0]}", program.cell)
    return Program(program.before, f"{program.cell}\n    {code[0]}")


def warmed(program: Program, _at: list[int], _do: str) -> Program:
    """Run the cell once before."""
    return Program(f"{program.before}\n{program.cell}", program.cell)


def zeroed_first(program: Program, _at: list[int], _do: str) -> Program:
    """Move zero_grad() to the beginning of the loop."""
    rows = program.cell.split("\n")
    moved = [row for row in rows if "zero_grad" in row]
    loop = next(i for i, row in enumerate(rows) if row.startswith("for "))
    rest = [row for row in rows if "zero_grad" not in row]
    return Program(program.before, "\n".join([*rest[: loop + 1], *moved, *rest[loop + 1 :]]))


def one_by_one(program: Program, _at: list[int], _do: str) -> Program:
    """Have the optimizer work on one parameter after the other."""
    call = r"(torch\.optim\.\w+\((?:[^()]|\([^()]*\))*?)(?:, foreach=True)?\)"
    return Program(*(re.sub(call, r"\1, foreach=False)", code) for code in (program.before, program.cell)))


ATTENTION = r"\((q) @ (k)\.transpose\(-2, -1\) \* [\w.]+\)\.softmax\(-1\) @ (v)"
EDITS: dict[str, Edit] = {
    "read_later": edit_line(r"\.(item|tolist|cpu)\(\)", ""),
    "pin": pinned,
    "non_blocking": pinned,
    "copy_once": hoisted,
    "keep_indices": indices_kept,
    "set_to_none": edit_line(r"set_to_none=False", "set_to_none=True"),
    "workers": edit_before(r"num_workers=0", "num_workers=2"),
    "more_workers": edit_before(r"num_workers=\d", "num_workers=4"),
    "sdpa": edit_line(ATTENTION, r"torch.nn.functional.scaled_dot_product_attention(\1, \2, \3)"),
    "tf32": edit_before(r"\Z", '\ntorch.set_float32_matmul_precision("high")'),
    "warm_up": warmed,
    "no_python": hoisted,
    "batch": edit_line(r"\.(item|tolist|cpu)\(\)", ""),
    "no_grad": without_graph,
    "store_item": in_words,
    "store_detached": in_words,
    "delete_in_round": in_words,
    "delete_before": in_words,
    "zero_grad_first": zeroed_first,
    "no_foreach": one_by_one,
}

W = "x, w = torch.randn(512, 512, device=device), torch.randn(512, 512, device=device)\n"
BATCHES = "batches = [torch.randn(512, 512) for _ in range(8)]\n"
NET = "net = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(8))).to(device)\n"
SGD = NET + "data = torch.randn(256, 512, device=device)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)"
STEP = "    opt.zero_grad(set_to_none={})\n    net(data).sum().backward()\n    opt.step()"
HEADS = "q, k, v = (torch.randn(8, 16, 2048, 64, device=device) for _ in range(3))\nscale = 0.125"
ATTEND = "for _ in range(4):\n    y = {}"
SLOW = "def look_up(i):\n    time.sleep(0.004)\n    return 1.5\n"
LOADER = """class Rows(torch.utils.data.Dataset):
    def __len__(self): return 64
    def __getitem__(self, i):
        time.sleep(0.02)
        return torch.ones(64)
loader = torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers={})
w = torch.randn(64, 64, device=device)"""
READ = "total = 0.0\nfor _ in range(8):\n    y = x @ w\n    total += y.sum(){}\n    time.sleep(0.0015)"
LAYERS = "layers = [torch.nn.Linear(1024, 1024) for _ in range(6)]\ndata = torch.randn(2048, 1024)"
FORWARD = "y = data\nfor layer in layers:\n    y = layer(y)"
TRAIN = "model = torch.nn.Linear(2048, 2048)\nopt = torch.optim.{}\ndata = torch.randn(64, 2048)"

FAULTS = (
    Fault("a number read in each step", True, PACED, W, READ.format(".item()"), READ.format("")),
    Fault(
        *("pageable batches", True, PACED, W + BATCHES),
        "for batch in batches:\n    y = batch.to(device) @ w\n    time.sleep(0.001)",
        "for batch in batches:\n    y = batch.to(device, non_blocking=True) @ w\n    time.sleep(0.001)",
        W + BATCHES + "batches = [batch.pin_memory() for batch in batches]",
    ),
    Fault(
        *("one tensor copied in each step", True, PACED, W + "table = torch.randn(512, 512)"),
        "for _ in range(8):\n    t = table.to(device)\n    y = x @ t",
        "t = table.to(device)\nfor _ in range(8):\n    y = x @ t",
    ),
    Fault(
        *("a branch on a value in each step", True, PACED, W),
        "n = 0\nfor _ in range(8):\n    y = x @ w\n    if y.sum() > 0:\n        n += 1\n    time.sleep(0.0015)",
        "n = 0\nfor _ in range(8):\n    y = x @ w\n    n = n + (y.sum() > 0)\n    time.sleep(0.0015)",
    ),
    Fault(
        *("gradients filled with zeros", True, H100, SGD + "\nnet(data).sum().backward()"),
        "for _ in range(5):\n" + STEP.format("False"),
        "for _ in range(5):\n" + STEP.format("True"),
    ),
    Fault(
        *("a DataLoader without workers", True, REAL, LOADER.format(0)),
        "for batch in loader:\n    y = batch.to(device) @ w",
        "for batch in loader:\n    y = batch.to(device) @ w",
        LOADER.format(2),
    ),
    Fault(
        *("attention in separate kernels", True, H100, HEADS),
        ATTEND.format("(q @ k.transpose(-2, -1) * scale).softmax(-1) @ v"),
        ATTEND.format("torch.nn.functional.scaled_dot_product_attention(q, k, v)"),
    ),
    Fault(
        *("products of float32", True, H100, "a = torch.randn(4096, 4096, device=device)"),
        "for _ in range(8):\n    b = a @ a",
        "for _ in range(8):\n    b = a @ a",
        'a = torch.randn(4096, 4096, device=device)\ntorch.set_float32_matmul_precision("high")',
    ),
    Fault(
        *("Python at work in each step", True, PACED, W + SLOW),
        "for i in range(8):\n    s = look_up(0)\n    y = (x @ w) * s",
        "s = look_up(0)\nfor i in range(8):\n    y = (x @ w) * s",
    ),
    Fault(
        *("a check for finite values in each step", False, PACED, W),
        "ok = []\nfor _ in range(8):\n    y = x @ w\n    ok.append(y.isfinite().all().item())\n    time.sleep(0.0015)",
        "ok = []\nfor _ in range(8):\n    y = x @ w\n    ok.append(y.isfinite().all())\n    time.sleep(0.0015)",
    ),
    Fault(
        *("a histogram fetched in each step", False, PACED, W),
        "seen = []\nfor _ in range(8):\n    y = x @ w\n    seen.append(y.sum(0).cpu())\n    time.sleep(0.0015)",
        "seen = []\nfor _ in range(8):\n    y = x @ w\n    seen.append(y.sum(0))\n    time.sleep(0.0015)",
    ),
    Fault(
        *("a mask made on the CPU in each step", False, PACED, W + "mask = torch.rand(512, 512)"),
        "for _ in range(8):\n    m = mask.to(device)\n    y = (x @ w) * m",
        "m = mask.to(device)\nfor _ in range(8):\n    y = (x @ w) * m",
    ),
    Fault(
        *("a configuration read in each step", False, PACED, W + SLOW),
        "total = 0.0\nfor i in range(10):\n    y = x @ w\n    time.sleep(0.005)\n    z = y + i",
        "total = 0.0\ntime.sleep(0.005)\nfor i in range(10):\n    y = x @ w\n    z = y + i",
    ),
    Fault(
        *(
            "many parameters updated one by one",
            False,
            PACED,
            "ps = [torch.zeros(64, device=device) for _ in range(400)]",
        ),
        "for p in ps:\n    p.add_(1.0)",
        "torch._foreach_add_(ps, 1.0)",
    ),
    Fault(
        *("losses kept with their graphs", True, CPU, LAYERS + "\nlosses = []"),
        "for _ in range(4):\n    loss = layers[0](data).relu().sum()\n    losses.append(loss)",
        "for _ in range(4):\n    loss = layers[0](data).relu().sum()\n    losses.append(loss.item())\n    del loss",
    ),
    Fault(
        *("an evaluation with a graph", False, CPU, LAYERS),
        FORWARD.replace("layer(y)", "layer(y).relu()"),
        "with torch.no_grad():\n    " + FORWARD.replace("layer(y)", "layer(y).relu()").replace("\n", "\n    "),
    ),
    Fault(
        *("outputs that outlive their iteration", False, CPU, "data = torch.randn(2048, 1024)"),
        "for _ in range(4):\n    y = data.exp()\n    z = y * 2",
        "for _ in range(4):\n    y = data.exp()\n    z = y * 2\n    del y, z",
    ),
    Fault(
        *("a large tensor left from before", False, CPU, "old = torch.randn(4096, 2048)\ndata = torch.randn(512, 512)"),
        "y = data @ data\nz = y.exp()",
        "y = data @ data\nz = y.exp()",
        "data = torch.randn(512, 512)",
    ),
    Fault(
        *("gradients freed after the forward pass", False, CPU, TRAIN.format("SGD(model.parameters(), lr=0.1)")),
        "for _ in range(3):\n    loss = model(data).relu().sum()\n    opt.zero_grad()\n    loss.backward()\n"
        "    opt.step()",
        "for _ in range(3):\n    opt.zero_grad()\n    loss = model(data).relu().sum()\n    loss.backward()\n"
        "    opt.step()",
    ),
    Fault(
        *("an optimizer that works on all parameters at once", False, CPU, LAYERS),
        "ps = [p for layer in layers for p in layer.parameters()]\nfor p in ps:\n    p.grad = torch.ones_like(p)\n"
        "torch.optim.Adam(ps, foreach=True).step()",
        "ps = [p for layer in layers for p in layer.parameters()]\nfor p in ps:\n    p.grad = torch.ones_like(p)\n"
        "torch.optim.Adam(ps, foreach=False).step()",
    ),
)


ABOUT = """A script edits each program by the first remedy of its brief, or by its `change`, and looks at nothing else.
One table of edits serves all programs. Times in ms are of a simulated device, or of a model of an H100; gains of edits
are by the same clock. Bytes are those of the CPU. No GPU measured any of this.

At the first run 11 of 20 were fixed. Six programs had no fault, as their right fixes gained nothing, or not each time,
and were changed; two edits lacked a part of what `do` says; and briefs got the gain of a time to look at. So the number
below is of programs and edits that were seen before, not of new ones."""
HEAD = (
    "| fault | | times | finding, remedy | before | predicted gain | gain of the edit | of the right fix | fixed |",
    "|---" * 9 + "|",
)


# Following, and counting.


def recorded(shell: InteractiveShell, fault: Fault, program: Program) -> dict[str, Any]:
    """The brief of a program, run anew."""
    import perfmagic

    start = f"import time, torch, perfmagic\n{fault.device}\n"
    shell.reset(new_session=False)
    with redirect_stdout(io.StringIO()):
        for code in (start + program.before, f"{fault.magic}\n{program.cell}"):
            shell.run_cell(code, silent=True).raise_error()
    return perfmagic.last().brief()


def followed(program: Program, brief: dict[str, Any]) -> tuple[dict[str, Any], Program | None]:
    """The first finding with a remedy, and the program with the edit of its remedy, or else of its change.

    None for what the table lacks, and for an edit that finds nothing to change.
    """
    finding = next((each for each in brief.get("findings", ()) if each.get("remedy")), {})
    names = finding.get("remedy", ""), finding.get("change", "").partition("(")[0]
    edit = next((EDITS[name] for name in names if name in EDITS), None)
    if edit is None:
        return finding, None
    at = [int(place.partition(":")[2]) for place in finding.get("at", ()) if place.startswith("cell:")]
    edited = edit(program, at, finding["do"])
    return finding, None if edited == program else edited


def cost(brief: dict[str, Any]) -> float:
    """What is to become less: bytes of the peak, or microseconds."""
    return float(brief["numbers"].get("peak_bytes", brief["numbers"].get("total_us", 0)))


def row_of(shell: InteractiveShell, fault: Fault) -> tuple[bool, str]:
    """Whether a fault was fixed, and its row of the table."""
    planted = Program(fault.before, fault.cell)
    brief = recorded(shell, fault, planted)
    finding, edited = followed(planted, brief)
    before = cost(brief)
    after = cost(recorded(shell, fault, edited)) if edited is not None else before
    right = cost(recorded(shell, fault, Program(fault.right_before or fault.before, fault.right)))
    fixed = before - after >= ENOUGH * (before - right) > 0
    unit, scale = ("MB", 1e6) if "peak_bytes" in brief["numbers"] else ("ms", 1e3)
    predicted = gains(finding, scale)
    cells = [
        fault.name,
        "known" if fault.known else "new",
        brief["times"] if fault.device != CPU else "bytes",
        f"`{finding.get('id', '–')}` {finding.get('remedy', '–')}",
        f"{before / scale:.2f} {unit}",
        predicted,
        f"{(before - after) / scale:.2f}" if edited is not None else "no edit",
        f"{(before - right) / scale:.2f}",
        "yes" if fixed else "no",
    ]
    return fixed, f"| {' | '.join(cells)} |"


def gains(finding: dict[str, Any], scale: float) -> str:
    """The predicted gain of a finding."""
    if "gain_bytes" in finding:
        return f"{'at most ' if finding.get('at_most') else ''}{finding['gain_bytes'] / scale:.2f}"
    if "gain_us" not in finding:
        return "–"
    low, high = (us / scale for us in finding["gain_us"])
    return f"{'at most ' if finding.get('at_most') else f'{low:.2f} to '}{high:.2f}"


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*", metavar="PART OF A NAME")
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "perfmagic")
    chosen = [fault for fault in FAULTS if not given.names or any(part in fault.name for part in given.names)]
    found = []
    for fault in chosen:
        found.append(row_of(shell, fault))
        print(found[-1][1], flush=True)
    fixed = sum(ok for ok, _ in found)
    print(f"\n{fixed} of {len(found)} fixed")
    if given.out:
        given.out.write_text(report([row for _, row in found], fixed), encoding="utf-8")


def report(rows: list[str], fixed: int) -> str:
    """The result as Markdown."""
    import torch

    return "\n".join(
        [
            "# Planted faults, fixed by a program that reads briefs",
            "",
            f"torch {torch.__version__}, no GPU; `python benchmarks/planted_faults.py`",
            "",
            *ABOUT.split("\n"),
            "",
            *HEAD,
            *rows,
            "",
            f"{fixed} of {len(rows)} fixed",
            "",
        ]
    )


if __name__ == "__main__":
    main()
