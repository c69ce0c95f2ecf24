"""What a release is made of says the same everywhere."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

import perfmagic

ROOT = Path(__file__).resolve().parents[1]
HOME = "https://example.invalid/owner/name"  # a domain that never exists (RFC 2606)


@pytest.fixture
def hook() -> Any:
    """The module that hatchling asks for the README and the urls."""
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def asked(hook: Any) -> dict[str, Any]:
    """What the hook sets."""
    metadata: dict[str, Any] = {}
    hook.HomeOfTheProject(str(ROOT), {}).update(metadata)
    return metadata


def test_the_version_stands_in_one_place() -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8").split("[project]")[1].split("\n[")[0]
    assert re.search(r"^version\b", project, re.MULTILINE) is None
    assert 'dynamic = ["version", ' in project
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


def test_without_a_home_the_readme_is_as_it_stands(hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(hook.HOME, raising=False)
    readme = {"content-type": "text/markdown", "text": (ROOT / "README.md").read_text("utf-8")}
    assert asked(hook) == {"readme": readme, "urls": {}}


def test_with_a_home_the_project_has_urls_and_links_lead_to_the_tag(hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(hook.HOME, f"{HOME}/")
    told = asked(hook)
    assert told["urls"]["Source"] == HOME
    assert f"({HOME}/blob/{perfmagic.__version__}/docs/magics.md)" in told["readme"]["text"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](docs/a.md#part)", f"[a]({HOME}/blob/1.0/docs/a.md#part)"),
        ("[demos](./demos/)", f"[demos]({HOME}/tree/1.0/demos/)"),
        ("![%x](docs/p.svg)", f"![%x]({HOME}/raw/1.0/docs/p.svg)"),
        ('<img alt="]("\n src="docs/p.png">', f'<img alt="]("\n src="{HOME}/raw/1.0/docs/p.png">'),
        ('<source srcset="docs/p.png">', f'<source srcset="{HOME}/raw/1.0/docs/p.png">'),
    ],
)
def test_a_relative_link_becomes_an_address(hook: Any, text: str, expected: str) -> None:
    assert hook.absolute(text, HOME, "1.0") == expected


@pytest.mark.parametrize("text", ["[a](https://x.invalid/a)", "[a](#part)", "[a](mailto:a@x.invalid)", "x[0](1, 2)"])
def test_what_is_no_relative_link_stays(hook: Any, text: str) -> None:
    assert hook.absolute(text, HOME, "1.0") == text


@pytest.mark.parametrize(
    "home", ["example.invalid/owner/name", "https://example.invalid", "http://a/b/c", "https://a b/c/d"]
)
def test_an_address_that_is_none_ends_the_build(hook: Any, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    monkeypatch.setenv(hook.HOME, home)
    with pytest.raises(ValueError, match="must be https://HOST/OWNER/NAME"):
        asked(hook)


def test_the_workflow_uploads_what_passed_and_only_its_upload_may_identify_itself() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    told = yaml.safe_load(text)
    build, publish = told["jobs"]["build"], told["jobs"]["publish"]
    assert told["permissions"] == {"contents": "read"}
    assert "permissions" not in build
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["needs"] == "build"
    assert publish["environment"] == "release"
    (folder,) = re.findall(r"make release-check OUT=(\w+)", text)
    kept, taken = build["steps"][-1]["with"], publish["steps"][0]["with"]
    assert kept["path"] == taken["path"] == f"{folder}/"
    assert kept["name"] == taken["name"]
    assert [step for step in publish["steps"] if "run" in step] == []
    assert "PERFMAGIC_HOME" in build["env"]
    assert re.search(r"https?://|secrets\.|password|\b(?:\w+\.)+(?:org|com|io)\b", text) is None
