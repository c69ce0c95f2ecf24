"""Driving a notebook in JupyterLab or Notebook 7 as a person would: open, run, look."""

import json
from pathlib import Path
from typing import Any

import nbformat

CURRENT = "jupyterapp.shell.currentWidget"
IDLE = f"{CURRENT}?.sessionContext?.session?.kernel?.status === 'idle'"
ALL_RAN = f"""() => {{
  const cells = {CURRENT}.content.model.cells;
  for (let i = 0; i < cells.length; i++) {{
    if (cells.get(i).type === 'code' && cells.get(i).executionCount == null) return false;
  }}
  return {IDLE};
}}"""


def write_notebook(path: Path, cells: tuple[str, ...]) -> Path:
    """A notebook of code cells that were never run."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(book, str(path))
    return path


def open_document(tab: Any, address: str, name: str, **options: Any) -> None:
    """Open in JupyterLab, which is loaded where the tab does not have it yet: that takes ten seconds of CPU."""
    if not tab.evaluate("() => 'jupyterapp' in window"):
        tab.goto(f"{address}/lab?reset")
        tab.wait_for_function("() => window.jupyterapp")
    tab.evaluate(
        # the document manager is a plugin of its own, which may come after the layout is restored
        """async ([path, options]) => {
          await jupyterapp.restored;
          const deadline = Date.now() + 60_000;
          while (!jupyterapp.commands.hasCommand('docmanager:open') && Date.now() < deadline)
            await new Promise((done) => setTimeout(done, 100));
          await jupyterapp.commands.execute('docmanager:open', {path, ...options});
        }""",
        [name, options],
    )
    tab.wait_for_function(f"(name) => {CURRENT}?.context?.path === name", arg=name, timeout=60_000)


def close_documents(tab: Any) -> None:
    """Leave JupyterLab as it was loaded: no document, no kernel, and asking nothing about changes."""
    tab.evaluate(
        """async () => {
          for (const widget of [...jupyterapp.shell.widgets('main')]) widget.dispose();
          await jupyterapp.serviceManager.sessions.shutdownAll();
        }"""
    )


def open_without_kernel(tab: Any, address: str, name: str) -> None:
    """Open in JupyterLab and start no kernel, as with "No Kernel" chosen, whatever the notebook names."""
    kernel = {"shouldStart": False, "canStart": False}
    open_document(tab, address, name, factory="Notebook", kernelPreference=kernel)
    tab.wait_for_selector(".jp-Notebook .jp-Cell", timeout=120_000)


def open_in_notebook_7(tab: Any, address: str, name: str) -> None:
    """Open in Notebook 7, with a kernel."""
    tab.goto(f"{address}/notebooks/{name}")
    tab.wait_for_selector(".jp-Notebook .jp-Cell", timeout=120_000)
    tab.wait_for_function(f"() => window.jupyterapp && {IDLE}", timeout=120_000)


def open_notebook(tab: Any, address: str, name: str, *, kernel: bool = True) -> None:
    """Open in JupyterLab; waits for the cells, and for the kernel where one is wanted."""
    open_document(tab, address, name)
    tab.wait_for_selector(".jp-Notebook .jp-Cell", timeout=120_000)
    if kernel:
        tab.wait_for_function(f"() => window.jupyterapp && {IDLE}", timeout=120_000)


def run_all(tab: Any) -> None:
    tab.evaluate("() => jupyterapp.commands.execute('notebook:run-all-cells')")
    tab.wait_for_function(ALL_RAN, timeout=180_000)


def run_code(tab: Any, code: str) -> str:
    """Run code in the notebook's kernel without a cell; gives what it printed, or its error."""
    return str(
        tab.evaluate(
            f"""async (code) => {{
              const kernel = {CURRENT}.sessionContext.session.kernel;
              const future = kernel.requestExecute({{code, silent: false, store_history: false}});
              let text = '';
              future.onIOPub = (m) => {{
                if (m.header.msg_type === 'stream') text += m.content.text;
                if (m.header.msg_type === 'error') text += m.content.ename + ': ' + m.content.evalue;
              }};
              await future.done;
              return text;
            }}""",
            code,
        )
    )


def shut_down(tab: Any) -> None:
    """End the kernel and its session."""
    tab.evaluate(f"async () => {{ await {CURRENT}.sessionContext.shutdown() }}")


def save(tab: Any) -> None:
    tab.evaluate("async () => { await jupyterapp.commands.execute('docmanager:save') }")


def outputs(path: Path) -> list[dict[str, Any]]:
    return [output for cell in json.loads(path.read_text())["cells"] for output in cell.get("outputs", [])]
