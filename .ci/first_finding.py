"""From an empty environment and a large trace to the first finding, by double click, as somebody new would.

python .ci/first_finding.py WHEEL [--out build/first-finding] [--only NAME ...]     (or make release-check FULL=1)

For each environment: makes it, installs the wheel and JupyterLab from pip's index and nothing else, opens a trace of
250 MB by double click in Chromium, waits for the first finding and takes a picture of it. Prints the seconds, of which
pip's are not part. Needs Chromium and playwright (the group `test`), two minutes, and 1.5 GB on disk.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # for the driving of JupyterLab, which the tests share

from tests.browser.chromium import FLAGS, FRESH, executable, fonts  # noqa: E402
from tests.browser.server import jupyter_server  # noqa: E402
from tests.trace.recorded import unpacked  # noqa: E402

SOURCE = unpacked(ROOT / "tests" / "data" / "traces" / "real" / "v100_2021_old_categories.pt.trace.json.xz")
BYTES = 250_000_000
TRACE = "run.pt.trace.json"
FINDING = ".perfmagic-document .pm-answer:visible"
WITHIN_MS = 300_000
ALONE = """
import importlib.util, importlib.metadata, perfmagic
assert importlib.util.find_spec("torch") is None, "torch is installed"
print(perfmagic.__file__, *(f"{name} {importlib.metadata.version(name)}" for name in NAMES), sep="\\n")
"""


class Environment(NamedTuple):
    """What is installed beside the wheel, and which page is opened."""

    packages: tuple[str, ...]
    page: str


ENVIRONMENTS = {
    "lab-oldest": Environment(("jupyterlab==4.0.*",), "lab"),
    "lab": Environment(("jupyterlab",), "lab"),
    "notebook": Environment(("notebook>=7",), "tree"),
}


def main() -> int:
    """Each environment in turn; stops at the first without a finding."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "first-finding")
    parser.add_argument("--only", nargs="+", choices=ENVIRONMENTS, default=list(ENVIRONMENTS))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        traces = Path(folder) / "traces"
        traces.mkdir()
        print(large_trace(traces / TRACE), flush=True)
        for name in options.only:
            home = Path(folder) / name
            python = environment(home, options.wheel.resolve(), ENVIRONMENTS[name])
            with jupyter_server(traces, home / "private", python) as address:
                seen = first_finding(f"{address}/{ENVIRONMENTS[name].page}", options.out / f"{name}.png")
            print(f"{name}: {seen}", flush=True)
    return 0


def large_trace(path: Path) -> str:
    """Write a recorded trace again and again until it is large enough; says how large."""
    repeat = (sys.executable, str(ROOT / "benchmarks" / "repeat_trace.py"), str(path), "--source", str(SOURCE))
    once = json.loads(said(*repeat, "--rounds", "1"))
    made = json.loads(said(*repeat, "--rounds", str(-(-BYTES // once["bytes"]))))
    return f"{path.name}: {made['bytes'] / 1e6:.0f} MB, {made['events']:,} events: {SOURCE.name} {made['rounds']} times"


def environment(folder: Path, wheel: Path, what: Environment) -> Path:
    """The interpreter of a new environment with the wheel and a host; says the versions."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    said(str(python), "-m", "pip", "install", "--quiet", *what.packages, str(wheel))
    names = [package.split("=")[0].rstrip(">") for package in what.packages]
    place, *versions = said(str(python), "-c", f"NAMES = {names}\n{ALONE}", cwd=folder).splitlines()
    if not Path(place).is_relative_to(folder):
        raise SystemExit(f"perfmagic is imported from {place}, not from the wheel")
    print(f"{folder.name}: {', '.join(versions)}, no torch", flush=True)
    return python


def first_finding(address: str, picture: Path) -> str:
    """Double-click on the trace; says the seconds to the first finding, and its words."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable(), args=list(FLAGS))
        context = browser.new_context(viewport={"width": 1400, "height": 1000}, locale="en-GB")
        context.add_init_script(fonts(*FRESH))
        tab = context.new_page()
        tab.goto(address)
        item = f".jp-DirListing-item:has-text('{TRACE}')"
        tab.wait_for_selector(item, timeout=WITHIN_MS)
        clicked = time.perf_counter()
        shown = opened(tab, item) if address.endswith("/tree") else clicked_here(tab, item)
        finding = shown.wait_for_selector(FINDING, timeout=WITHIN_MS)
        seconds = time.perf_counter() - clicked
        words = finding.query_selector("b").inner_text()
        shown.wait_for_timeout(1000)  # the canvas is painted in the next frame
        shown.screenshot(path=picture)
        browser.close()
    return f"{seconds:.1f} s from the double click to “{words}”; {picture}"


def clicked_here(tab: Any, item: str) -> Any:
    """JupyterLab opens it in a tab of its own, inside the page."""
    tab.dblclick(item)
    return tab


def opened(tab: Any, item: str) -> Any:
    """Notebook 7 opens it in a new tab of the browser."""
    with tab.context.expect_page(timeout=WITHIN_MS) as new:
        tab.dblclick(item)
    return new.value


def said(*command: str, cwd: Path = ROOT) -> str:
    """What a command printed. Ends everything with its words where it fails."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}  # only what is installed counts
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
