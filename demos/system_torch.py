"""Lets an environment use the torch of the Python that runs this: links to it, and versions for pip.

python demos/system_torch.py .venv     (make demo TORCH=system; make demo TORCH=system PYTHON=/a/python/with/torch)

torch and what it requires, as far as this Python has it, are linked into a folder that comes last on the environment's
path: pip finds them there and fetches none of them. Nothing else of this Python is seen.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OLDEST = (2, 10)
LINKS = "system-torch"
VERSIONS = "constraints.txt"


def main(environment: Path) -> int:
    """Write links and versions into the environment; say which torch it is, or why there is none to use."""
    version = "python{}.{}".format(*sys.version_info)
    packages = environment.resolve() / "lib" / version / "site-packages"
    if not packages.is_dir():
        return refused(
            f"{environment} is of another Python than {sys.executable}: remove it, or name its Python in PYTHON"
        )
    try:
        torch = distribution("torch")
    except PackageNotFoundError:
        return refused(f"{sys.executable} has no torch: make TORCH=system PYTHON=/path/to/a/python/that/has/it ...")
    if tuple(int(part) for part in re.findall(r"\d+", torch.version)[:2]) < OLDEST:
        return refused(
            f"torch {torch.version} of {sys.executable} is older than 2.10; without TORCH=system pip fetches one"
        )
    links = packages.parent / LINKS
    links.mkdir(exist_ok=True)
    for one in required(torch).values():
        for place in top_level(one):
            if not (links / place.name).exists():
                (links / place.name).symlink_to(place)
    (packages / f"{LINKS}.pth").write_text(f"{links}\n", "utf-8")
    pins = (ROOT / "constraints-dev.txt").read_text("utf-8")
    (environment / VERSIONS).write_text(re.sub(r"(?m)^torch==.*$", f"torch=={torch.version}", pins), "utf-8")
    print(f"torch {torch.version} of {sys.executable} is used; none is fetched")
    return 0


def required(first: Distribution) -> dict[str, Distribution]:
    """A distribution and, by name, all that it requires and this Python has."""
    found, open_ends = {first.metadata["Name"]: first}, [first]
    while open_ends:
        for line in open_ends.pop().requires or []:
            name = re.split(r"[^\w.-]", line, maxsplit=1)[0]
            if name in found or re.search(r"extra\s*==", line):
                continue
            try:
                found[name] = distribution(name)
            except PackageNotFoundError:  # of another system, or of another Python
                continue
            open_ends.append(found[name])
    return found


def top_level(one: Distribution) -> set[Path]:
    """The packages, modules and metadata of a distribution, where they lie."""
    names = {file.parts[0] for file in one.files or ()} - {"..", "__pycache__"}
    return {Path(str(one.locate_file(name))).resolve() for name in names}


def refused(words: str) -> int:
    """Say why not."""
    print(words, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
