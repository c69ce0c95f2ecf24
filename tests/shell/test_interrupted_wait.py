"""An interrupt while a cell that has returned waits for the device: what was recorded until then is kept."""

import signal
import threading

import pytest

from .conftest import Notebook

pytestmark = pytest.mark.slow

# the alarm goes off when the lines are done: 2 s of products are queued by then
CELL = """%%{magic} -o result
for _ in range(20):
    y = x @ x
alarm.start()"""


@pytest.mark.parametrize("magic", ["timeline", "graph", "memory"])
def test_an_interrupted_cell_shows_and_binds_its_record(notebook: Notebook, magic: str) -> None:
    notebook.run("import perfmagic, torch\nx = torch.ones(2, 2, device=perfmagic.device('sim', pace='matmul=100ms'))")
    main = threading.main_thread().ident
    notebook.names["alarm"] = threading.Timer(0.5, lambda: signal.pthread_kill(main, signal.SIGINT))
    try:
        ran = notebook.run(CELL.format(magic=magic))
    finally:
        notebook.names["alarm"].cancel()
        notebook.run("perfmagic.device('sim', pace=perfmagic.Pace())")
    assert isinstance(ran.error, KeyboardInterrupt)
    assert "KeyboardInterrupt after waiting" in ran.report
    assert "KeyboardInterrupt after waiting" in notebook.names["result"].text()


BLOCK = """with perfmagic.timeline() as t:
    for _ in range(20):
        y = x @ x
    alarm.start()"""


def test_an_interrupted_block_shows_and_binds_its_record(notebook: Notebook) -> None:
    notebook.run("import perfmagic, torch\nx = torch.ones(2, 2, device=perfmagic.device('sim', pace='matmul=100ms'))")
    main = threading.main_thread().ident
    notebook.names["alarm"] = threading.Timer(0.5, lambda: signal.pthread_kill(main, signal.SIGINT))
    try:
        ran = notebook.run(BLOCK)
    finally:
        notebook.names["alarm"].cancel()
        notebook.run("perfmagic.device('sim', pace=perfmagic.Pace())")
    assert isinstance(ran.error, KeyboardInterrupt)
    assert "KeyboardInterrupt after waiting" in notebook.names["t"].result.text()
