"""An interrupt while a cell that has returned waits for the device: what was recorded until then is kept."""

import signal
import textwrap
import threading

import pytest

from .conftest import Notebook

pytestmark = pytest.mark.slow

# the alarm goes off when the lines are done: 2 s of products are queued by then
BODY = "for _ in range(20):\n    y = x @ x\nalarm.start()"
CELLS = {magic: f"%%{magic} -o result\n{BODY}" for magic in ("timeline", "graph", "memory")}
CELLS["a block"] = f"with perfmagic.timeline() as t:\n{textwrap.indent(BODY, '    ')}"


@pytest.mark.parametrize("what", CELLS)
def test_what_was_recorded_until_an_interrupt_is_shown_and_bound(notebook: Notebook, what: str) -> None:
    notebook.run("import perfmagic, torch\nx = torch.ones(2, 2, device=perfmagic.device('sim', pace='matmul=100ms'))")
    main = threading.main_thread().ident
    notebook.names["alarm"] = threading.Timer(0.5, lambda: signal.pthread_kill(main, signal.SIGINT))
    try:
        ran = notebook.run(CELLS[what])
    finally:
        notebook.names["alarm"].cancel()
        notebook.run("perfmagic.device('sim', pace=perfmagic.Pace())")
    assert isinstance(ran.error, KeyboardInterrupt)
    result = notebook.names["t"].result if what == "a block" else notebook.names["result"]
    assert "KeyboardInterrupt after waiting" in result.text()
    assert what == "a block" or "KeyboardInterrupt after waiting" in ran.report
