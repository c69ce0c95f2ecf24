"""Whether a release could be made of this tree: builds it, installs it alone, and says how large and how quick it is.

python .ci/release_check.py [--out FOLDER] [--full]

`make release-check`; needs the group `release` of pyproject.toml, and pip's index.  --out: where the two files that
passed are left, for the upload.  --full: also a large trace by double click in a browser, which takes minutes
(first_finding.py; needs the group `test` and Chromium).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TRACE = ROOT / "tests" / "data" / "traces" / "v100_4streams_nccl_step.json.gz"
MOST_BYTES = 185_000_000  # of the environment with all that is required, beyond what an empty one has
RUNS = 10
HOME = "https://example.invalid/owner/name"  # a domain that never exists (RFC 2606)
LINK = re.compile(r"""(?:\]\(|(?:src|srcset|href)=")([^)"\s]+)""")
IMPORT = """
import sys, time
start = time.perf_counter()
import perfmagic
print(time.perf_counter() - start, *sorted({"torch", "numpy", "IPython"} & sys.modules.keys()))
"""


def main() -> int:
    """Every check in order; stops at the first that fails, with what it said."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--full", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "dist"
        run(sys.executable, "-m", "build", "--outdir", str(built), str(ROOT))
        (wheel,), (source,) = built.glob("*.whl"), built.glob("*.tar.gz")
        run(sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(source))
        run(sys.executable, "-m", "check_wheel_contents", "--toplevel", "perfmagic", str(wheel))
        check_version(wheel)
        check_home(Path(folder) / "home")
        for file in (wheel, source):
            print(f"{file.name}: {file.stat().st_size:,} bytes")
        installed(wheel, Path(folder) / "environment")
        if options.full:
            print(run(sys.executable, str(ROOT / ".ci" / "first_finding.py"), str(wheel)), end="")
        if options.out:
            shutil.copytree(built, options.out)  # new: what else lies in a folder would be uploaded, too
    print("a release could be made of this tree")
    return 0


def check_version(wheel: Path) -> None:
    """The wheel's version is the package's, and the first heading of the changes names it."""
    version = wheel.name.split("-")[1]
    told = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    if told is None or told[1].rstrip(",") != version:
        raise SystemExit(f"the wheel is {version}, CHANGELOG.md begins with {told[1] if told else 'nothing'}")


def check_home(folder: Path) -> None:
    """Built where there is a home, the project has urls, and each link of its README is the address of a file here."""
    command = (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder))
    run(*command, env={"PERFMAGIC_HOME": HOME})
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    links = LINK.findall(str(metadata.get_payload()))
    of_files = [link.removeprefix(HOME).split("/", 3)[-1].split("#")[0] for link in links if link.startswith(HOME)]
    relative = [link for link in links if "://" not in link]
    lost = [path for path in of_files if not (ROOT / path).exists()]
    urls = metadata.get_all("Project-URL", [])
    if relative or lost or not of_files or f"Source, {HOME}" not in urls:
        raise SystemExit(f"with {HOME}: relative: {relative}; no files: {lost}; urls: {urls}")
    print(f"with a home: {len(urls)} urls, {len(of_files)} links and pictures of the README lead to it")


def installed(wheel: Path, folder: Path) -> None:
    """Install the wheel into an empty environment, use it there, and take it away again."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    empty_bytes, before = size_bytes(folder), files(folder)
    run(python, "-m", "pip", "install", "--quiet", str(wheel))
    grown_bytes = size_bytes(folder) - empty_bytes
    packages = run(python, "-m", "pip", "list", "--format=freeze").count("==") - 1
    print(f"installed: {grown_bytes / 1e6:.0f} MB in {packages} packages beyond an empty environment")
    if grown_bytes > MOST_BYTES:
        raise SystemExit(f"{grown_bytes / 1e6:.0f} MB are more than {MOST_BYTES / 1e6:.0f} MB")
    run(python, "-m", "pip", "check")
    check_files(wheel, folder)
    check_use(python, Path(folder))
    run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "perfmagic")
    left = [name for name in files(folder) - before if "perfmagic" in name]
    if left:
        raise SystemExit(f"pip uninstall leaves {', '.join(sorted(left))}")


def check_files(wheel: Path, folder: Path) -> None:
    """What the wheel gives to Jupyter has arrived where Jupyter looks."""
    with zipfile.ZipFile(wheel) as archive:
        shared = [name.split("/data/", 1)[1] for name in archive.namelist() if ".data/data/" in name]
    lost = [name for name in shared if not (folder / name).is_file()]
    if lost:
        raise SystemExit(f"not installed: {', '.join(lost)}")


def check_use(python: Path, folder: Path) -> None:
    """It imports nothing heavy, loads in IPython, and reports a trace without torch."""
    times = []
    for _ in range(RUNS):
        seconds, *heavy = run(python, "-c", IMPORT, cwd=folder).split()
        if heavy:
            raise SystemExit(f"import perfmagic loads {', '.join(heavy)}")
        times.append(float(seconds))
    print(f"import perfmagic: {min(times) * 1e3:.1f} ms, the quickest of {RUNS}")
    verdict = run(python, "-m", "perfmagic", "report", str(TRACE), cwd=folder)
    page = folder / "report.html"
    run(python, "-m", "perfmagic", "report", str(TRACE), "--html", "--out", str(page), cwd=folder)
    loaded = run(
        python, "-m", "IPython", "-c", "%load_ext perfmagic\nget_ipython().find_cell_magic('timeline')", cwd=folder
    )
    if " decide" not in verdict or "data-perfmagic-timeline" not in page.read_text("utf-8") or not loaded:
        raise SystemExit("the installed package does not report a trace")


def size_bytes(folder: Path) -> int:
    """The bytes of all files; links count nothing."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def files(folder: Path) -> set[str]:
    """The names of all files."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """What a command printed. Ends everything with its words where it fails.  env: variables beside those there are."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | (env or {}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
