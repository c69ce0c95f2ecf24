"""`%config PerfmagicMagics`, and the same in ipython_config.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perfmagic.base.display import VARIABLE, display_mode

from .conftest import Notebook

pytestmark = [pytest.mark.slow, pytest.mark.floor]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfmagic.base.display._chosen", [])
    monkeypatch.setattr("perfmagic.base.display._configured", ["auto"])
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def configured(bare: Notebook) -> Iterator[Notebook]:
    bare.shell.config.PerfmagicMagics.display = "html"
    yield bare
    bare.run("%unload_ext perfmagic")


def test_config_lists_the_settings_with_their_values(notebook: Notebook) -> None:
    listed = notebook.run("%config PerfmagicMagics").printed
    assert "PerfmagicMagics.display" in listed
    assert "Current: 'auto'" in listed
    assert all(mode in listed for mode in ("widget", "static", "html"))


def test_config_takes_effect_at_once(notebook: Notebook) -> None:
    notebook.run('%config PerfmagicMagics.display = "static"')
    assert display_mode() == "static"


def test_config_and_the_magic_are_one_setting(notebook: Notebook) -> None:
    notebook.run("%perfmagic display html")
    assert notebook.run("%config PerfmagicMagics.display").value == "html"


def test_an_unknown_mode_is_an_error_and_changes_nothing(notebook: Notebook) -> None:
    notebook.run('%config PerfmagicMagics.display = "static"')
    notebook.run('%config PerfmagicMagics.display = "statc"')  # traitlets logs why
    assert display_mode() == "static"


def test_the_configuration_file_sets_it(configured: Notebook) -> None:
    configured.run("%load_ext perfmagic")
    assert display_mode() == "html"


def test_the_session_overrides_the_environment_which_overrides_the_file(
    configured: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "static")
    configured.run("%load_ext perfmagic")
    assert display_mode() == "static"
    configured.run('%config PerfmagicMagics.display = "widget"')
    assert display_mode() == "widget"


def test_a_mistyped_setting_prints_one_line_and_the_magics_load(configured: Notebook) -> None:
    configured.shell.config.PerfmagicMagics.display = "statc"
    ran = configured.run("%load_ext perfmagic")
    assert ran.error is None
    assert ran.warned.count("\n") == 1
    assert "'statc'" in ran.warned
    assert configured.run("%%timeline\nx = 1").error is None
    configured.run('%config PerfmagicMagics.display = "static"')
    assert display_mode() == "static"


def test_unload_removes_the_settings(configured: Notebook) -> None:
    for _ in range(2):
        configured.run("%load_ext perfmagic")
        assert "PerfmagicMagics" in configured.run("%config").printed
        configured.run("%unload_ext perfmagic")
        assert "PerfmagicMagics" not in configured.run("%config").printed
        assert display_mode() == "auto"
