"""make demo TORCH=system: an environment finds the torch of another Python, and pip fetches none."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = Path("lib", "python{}.{}".format(*sys.version_info), "site-packages")


def package(folder: Path, name: str, version: str, *required: str) -> None:
    """A distribution of one package, as an installer leaves it."""
    about = folder / f"{name}-{version}.dist-info"
    about.mkdir(parents=True)
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text("")
    needs = "".join(f"Requires-Dist: {line}\n" for line in required)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
    (about / "RECORD").write_text(f"../../../bin/{name},,\n{name}/__init__.py,,\n{about.name}/METADATA,,\n")


def asked(environment: Path, theirs: Path) -> subprocess.CompletedProcess[str]:
    """What the script says to a Python that has the packages of a folder and no others."""
    command = [sys.executable, "-S", str(ROOT / "demos" / "system_torch.py"), str(environment)]
    return subprocess.run(command, env={"PYTHONPATH": str(theirs)}, capture_output=True, text=True)


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    made = tmp_path / "environment"
    (made / PACKAGES).mkdir(parents=True)
    return made


def test_torch_and_what_it_requires_are_linked_and_nothing_else(environment: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    package(theirs, "torch", "2.11.0+own", "needed>=1; python_version>'3'", "absent", "other; extra == 'more'")
    package(theirs, "needed", "1.0", "deeper")
    package(theirs, "deeper", "1.0", "torch")
    package(theirs, "other", "1.0")
    done = asked(environment, theirs)
    assert done.returncode == 0, done.stderr
    (line,) = (environment / PACKAGES / "system-torch.pth").read_text().splitlines()
    names = {"torch", "needed", "deeper"}
    assert {path.name.split("-")[0] for path in Path(line).iterdir()} == names
    assert (Path(line) / "torch").resolve() == theirs / "torch"
    pins = (environment / "constraints.txt").read_text().splitlines()
    assert [pin for pin in pins if pin.startswith("torch==")] == ["torch==2.11.0+own"]
    assert len(pins) == len((ROOT / "constraints-dev.txt").read_text().splitlines())
    assert asked(environment, theirs).returncode == 0  # once more changes nothing


@pytest.mark.parametrize(("version", "words"), [(None, "has no torch"), ("2.9.1+cu130", "is older than 2.10")])
def test_a_python_without_a_torch_to_use_is_named(
    environment: Path, tmp_path: Path, version: str | None, words: str
) -> None:
    theirs = tmp_path / "theirs"
    if version:
        package(theirs, "torch", version)
    done = asked(environment, theirs)
    assert done.returncode == 1
    assert words in done.stderr
    assert sys.executable in done.stderr
    assert not (environment / "constraints.txt").exists()


def test_an_environment_of_another_python_is_refused(tmp_path: Path) -> None:
    package(tmp_path, "torch", "2.11.0")
    assert "is of another Python" in asked(tmp_path / "environment", tmp_path).stderr
