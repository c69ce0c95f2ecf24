"""What a cell does in several processes: variables, output, values, random states, records."""

import os
from pathlib import Path

import pytest

from perfmagic.base.errors import OptionError
from perfmagic.trace.formats.sources import read_file

from .conftest import Cells

pytestmark = pytest.mark.slow


def values(cells: Cells, body: str, **how: object) -> list[str]:
    end = cells.run(body, **how)
    assert end.failures == ()
    return [bundle["text/plain"] for _, bundle in sorted(end.values.items())]


def test_ranks_know_who_they_are_as_torchrun_tells_them(three: Cells) -> None:
    names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR"]
    assert values(three, f"rank, world_size, [os.environ[name] for name in {names}]") == [
        f"({rank}, 3, ['{rank}', '{rank}', '3', '3', '127.0.0.1'])" for rank in range(3)
    ]
    assert values(three, "dist.get_rank(), dist.get_world_size()") == [f"({rank}, 3)" for rank in range(3)]


def test_a_cell_for_some_ranks_runs_in_those_alone(three: Cells) -> None:
    three.run("there = False")
    three.run("there = True", on=[0, 2])
    assert values(three, "there") == ["True", "False", "True"]
    with pytest.raises(OptionError, match="there is no rank 3"):
        three.run("1", on=[3])


def test_what_is_printed_comes_in_whole_lines_of_one_rank(three: Cells) -> None:
    three.run("print('a', end=''); print('b')\nprint('state 1\\rstate 2')\nprint('no end', end='')")
    for rank in range(3):
        assert [text for r, _, text in three.heard.lines if r == rank] == ["ab", "state 2", "no end"]


def test_what_cplusplus_prints_is_heard_too(three: Cells) -> None:
    three.run("os.write(2, b'from below\\n')", on=[1])
    assert (1, "stderr", "from below") in three.heard.lines


def test_output_is_heard_while_the_cell_runs(three: Cells) -> None:
    seen: list[int] = []
    real, three.session.outputs.lines = three.session.outputs.lines, lambda *_: seen.append(len(seen))
    try:
        # rank 1 goes on only after this process has heard of rank 0's line
        read, write = os.pipe()
        path = f"/proc/{os.getpid()}/fd/{read}"
        three.session.outputs.lines = lambda *_: (seen.append(1), os.write(write, b"x"))
        end = three.run(f"if rank == 0: print('begun')\nif rank == 1: assert open({path!r}, 'rb').read(1) == b'x'")
    finally:
        three.session.outputs.lines = real
    assert end.failures == ()
    assert seen


def test_a_display_keeps_its_mime_types(three: Cells) -> None:
    three.run("from IPython.display import HTML, display\ndisplay(HTML('<b>x</b>'))", on=[2])
    assert [(rank, shown["text/html"]) for rank, shown in three.heard.displays] == [(2, "<b>x</b>")]


def test_random_states_differ_as_they_do_under_torchrun(three: Cells) -> None:
    drawn = values(three, "import random, numpy as np\n(random.random(), np.random.rand(), torch.rand(1).item())")
    columns = zip(*(eval(row) for row in drawn), strict=True)
    assert [len(set(column)) for column in columns] == [3, 3, 3]


def test_a_warning_of_c_is_shown_once_and_who_else_gave_it_is_said(three: Cells) -> None:
    body = """import os
os.write(2, b"[W1123 02:00:00.%d x.cpp:12] Warning: no cores (function f)\\n" % rank)
os.write(2, b"[rank%d]:[W1123 02:00:01.%d x.cpp:13] Warning: of rank %d\\n" % (rank, rank, rank))
os.write(2, b"[W1123 2:0:1.1 reducer.cpp:9] Warning: Time stats are currently only collected for CPU and CUDA\\n")
os.write(2, b"[W1123 2:0:1.1 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved. err=-3\\n")
os.write(2, b"no warning\\n");"""
    end = three.run(body)
    assert end.failures == ()
    said = [(rank, line.rpartition("] ")[2]) for rank, stream, line in three.heard.lines if stream == "stderr"]
    (first,) = [rank for rank, line in said if line == "Warning: no cores (function f)"]
    others = ", ".join(str(rank) for rank in range(3) if rank != first)
    assert three.heard.notices == [f"[{others}] the same as rank {first}, x.cpp:12: Warning: no cores (function f)"]
    assert sorted(line for _, line in said if line.startswith("Warning: of")) == [
        f"Warning: of rank {i}" for i in range(3)
    ]
    assert sorted(rank for rank, line in said if line == "no warning") == [0, 1, 2]
    assert "Time stats" not in str(said)
    assert "hostname" not in str(said)


def test_each_rank_records_the_cell_and_all_begin_together(three: Cells, tmp_path: Path) -> None:
    end = three.run("y = use()\nfor i in range(2):\n    y += i", record={})
    traces = []
    for rank, payload in sorted(end.recorded.items()):
        path = tmp_path / f"{rank}.npz"
        path.write_bytes(payload)
        traces.append(read_file(path))
    assert [(trace.meta.rank, trace.meta.world_size) for trace in traces] == [(0, 3), (1, 3), (2, 3)]
    assert {trace.cell.source for trace in traces if trace.cell} == {
        "%%ranks\ny = use()\nfor i in range(2):\n    y += i"
    }
    assert [sorted(set(trace.marks.line.tolist())) for trace in traces] == [
        [0, 2, 3, 4]
    ] * 3  # 0: what follows the body
    spans = [(t.meta.base_unix_ns + t.meta.start_ns, t.meta.base_unix_ns + t.meta.end_ns) for t in traces]
    # one instant lies in the records of all: they wait for each other in use()
    assert max(start for start, _ in spans) < min(end_ns for _, end_ns in spans)


def test_a_plain_cell_records_nothing(three: Cells) -> None:
    assert three.run("1").recorded == {}


def test_the_store_listens_to_this_machine_alone(three: Cells) -> None:
    pids = [peer.started.pid for peer in three.session.peers]
    rows = [row for kind in ("tcp", "tcp6") for row in Path(f"/proc/{pids[0]}/net/{kind}").read_text().splitlines()[1:]]
    targets = [str(fd.readlink()) for pid in pids for fd in Path(f"/proc/{pid}/fd").iterdir()]
    inodes = {target[8:-1] for target in targets if target.startswith("socket:")}
    listening = [row.split()[1].split(":")[0] for row in rows if row.split()[3] == "0A" and row.split()[9] in inodes]
    assert listening
    assert set(listening) <= {"0100007F", "0000000000000000FFFF00000100007F"}


def test_a_rank_shares_most_of_its_memory(three: Cells) -> None:
    for peer in three.session.peers:
        rows = dict(
            row.split(":", 1) for row in Path(f"/proc/{peer.started.pid}/smaps_rollup").read_text().splitlines()[1:]
        )
        private = sum(int(rows[name].split()[0]) for name in rows if name.startswith("Private_"))
        assert private < int(rows["Rss"].split()[0]) / 2


def test_very_much_output_of_a_program_keeps_its_order(three: Cells) -> None:
    three.run("import os\nos.system('seq 5000');", on=[0])
    assert [text for _, stream, text in three.heard.lines if stream == "stderr"] == [str(i) for i in range(1, 5001)]


def test_ranks_of_a_kernel_outside_the_active_environment_start_silently(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))  # IPython warns of it; the kernel has done so
    cells = Cells(1)
    try:
        assert not cells.session.run("%%ranks\nrank").failures
        assert cells.heard.lines == []
    finally:
        cells.session.close()
