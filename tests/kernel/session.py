"""A real kernel, driven over its real protocol, as a front end does it."""

import queue
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.asynchronous import AsyncKernelClient
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager, KernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

PATIENCE_S = 120


class OneSpec(KernelSpecManager):
    """Knows one kernel: ipykernel under the given interpreter."""

    def __init__(self, python: str) -> None:
        super().__init__()
        self._python = python

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        argv = [self._python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name=kernel_name, language="python")


@dataclass
class Done:
    """What a front end received for one cell.

    status: "ok", "error" or "aborted" (Run All had been stopped before it began).
    """

    status: str = ""
    printed: str = ""
    warned: str = ""
    displayed: list[dict[str, Any]] = field(default_factory=list)
    value: str | None = None
    error: str = ""
    traceback: str = ""

    def take(self, kind: str, content: dict[str, Any]) -> None:
        """Add one message of the kernel's."""
        if kind == "stream" and content["name"] == "stdout":
            self.printed += content["text"]
        elif kind == "stream":
            self.warned += content["text"]
        elif kind == "display_data":
            self.displayed.append(content["data"])
        elif kind == "execute_result":
            self.value = content["data"]["text/plain"]
        elif kind == "error":
            self.error = content["ename"]
            self.traceback = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(content["traceback"]))

    @property
    def report(self) -> str:
        """The text of everything displayed."""
        return "\n".join(data.get("text/plain", "") for data in self.displayed)


class Session:
    """One kernel. `run_all` sends every cell at once, as Run All does."""

    def __init__(self, python: str, folder: Path) -> None:
        self._manager = KernelManager(kernel_name="python", kernel_spec_manager=OneSpec(python))
        self._manager.start_kernel(cwd=str(folder))
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=PATIENCE_S)

    def run(self, source: str) -> Done:
        """One cell."""
        return self.run_all([source])[0]

    def run_all(self, sources: Sequence[str], *, interrupt_after: str = "") -> list[Done]:
        """Run cells one after the other; a real interrupt is sent once that text was printed."""
        self._come_to_rest()
        # Run All sends everything at once: the kernel is held until all of it has arrived
        held = ["__import__('time').sleep(0.3)"] * (len(sources) > 1)
        first = {self._client.execute(source, silent=True): Done() for source in held}
        asked = first | {self._client.execute(source, stop_on_error=True): Done() for source in sources}
        idle, seen, deadline = set[str](), "", time.monotonic() + PATIENCE_S
        while idle != set(asked):
            message = self._client.get_iopub_msg(timeout=max(0.1, deadline - time.monotonic()))
            parent, kind, content = message["parent_header"].get("msg_id"), message["msg_type"], message["content"]
            if parent not in asked:
                continue
            asked[parent].take(kind, content)
            seen += content.get("text", "") if kind == "stream" else ""
            if interrupt_after and interrupt_after in seen:
                interrupt_after = ""
                self._manager.interrupt_kernel()
            if kind == "status" and content["execution_state"] == "idle":
                idle.add(parent)
        self._read_replies(asked)
        return list(asked.values())[len(held) :]

    def _come_to_rest(self) -> None:
        """ipykernel drops what arrives within a moment of an error, as Run All wants it; a person is slower."""
        for _ in range(50):
            asked = {self._client.execute("", silent=True): Done()}
            self._read_replies(asked)
            if all(done.status == "ok" for done in asked.values()):
                return
            time.sleep(0.1)
        raise TimeoutError("the kernel drops every cell")

    def _read_replies(self, asked: dict[str, Done]) -> None:
        while any(not done.status for done in asked.values()):
            try:
                reply = self._client.get_shell_msg(timeout=PATIENCE_S)
            except queue.Empty:
                raise TimeoutError("the kernel did not answer") from None
            if reply["parent_header"].get("msg_id") in asked:
                asked[reply["parent_header"]["msg_id"]].status = reply["content"]["status"]

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


def run_notebook(cells: Sequence[str], python: str, folder: Path) -> tuple[nbformat.NotebookNode, str]:
    """Execute cells as `jupyter execute` does; gives the notebook and the name of the error that stopped it."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    manager = AsyncKernelManager(
        kernel_name="python3",
        kernel_spec_manager=OneSpec(python),
        client_class=f"{AsyncKernelClient.__module__}.{AsyncKernelClient.__name__}",
    )
    client = NotebookClient(notebook, km=manager, timeout=PATIENCE_S, resources={"metadata": {"path": str(folder)}})
    try:
        client.execute()
    except CellExecutionError as error:
        return notebook, error.ename
    return notebook, ""
