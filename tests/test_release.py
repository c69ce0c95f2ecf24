"""What a release is made of says the same everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import perfmagic

ROOT = Path(__file__).resolve().parents[1]


def test_the_version_stands_in_one_place() -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8").split("[project]")[1].split("\n[")[0]
    assert re.search(r"^version\b", project, re.MULTILINE) is None
    assert 'dynamic = ["version"]' in project
    assert "version" not in (ROOT / "CITATION.cff").read_text("utf-8").replace("cff-version", "")


def test_the_changes_begin_with_the_version() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0].rstrip(",") == perfmagic.__version__


def test_the_citation_has_what_its_format_asks_for() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()  # the schema of 1.2.0 requires these
    assert cited["license"] in (ROOT / "pyproject.toml").read_text("utf-8")
    assert all(author["name"] for author in cited["authors"])


def test_each_group_of_the_makefile_exists() -> None:
    groups = (ROOT / "pyproject.toml").read_text("utf-8").split("[dependency-groups]")[1].split("\n[")[0]
    named = set(re.findall(r"^(\w+) = \[", groups, re.MULTILINE))
    stamps = set(re.findall(r"\$\(VENV\)/(\w+)\.stamp", (ROOT / "Makefile").read_text("utf-8")))
    assert stamps
    assert stamps <= named
    assert set(re.findall(r'include-group = "(\w+)"', groups)) <= named
