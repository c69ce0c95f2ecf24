"""`%config PerfmagicMagics`, and the same in ipython_config.py."""

from collections.abc import Iterator

import pytest

from perfmagic.base.display import VARIABLE, display_mode
from perfmagic.base.language import language

from .conftest import Notebook

pytestmark = [pytest.mark.slow, pytest.mark.floor]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfmagic.base.display._chosen", [])
    monkeypatch.setattr("perfmagic.base.display._configured", ["auto"])
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("perfmagic.base.language._chosen", [])
    monkeypatch.setattr("perfmagic.base.language._configured", ["en"])
    monkeypatch.delenv("PERFMAGIC_LANGUAGE", raising=False)


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


def test_the_language_of_answers_is_chosen_in_the_shell(notebook: Notebook) -> None:
    assert "language     zh" in notebook.run("%perfmagic language zh_CN").printed
    assert "没有用到设备" in notebook.run("%%timeline -o t\nx = 1").report + notebook.run("print(t.text())").printed
    notebook.run("%perfmagic language en")
    assert "No device was used" in notebook.run("print(t.text())").printed
    assert notebook.run("%config PerfmagicMagics.language").value == "en"


def test_an_unknown_language_is_refused_by_name(notebook: Notebook) -> None:
    refusal = notebook.run("%perfmagic language klingon").refusal
    assert "klingon" in refusal
    assert "en, zh" in refusal
    assert language() == "en"


def test_config_sets_the_language_and_the_file_before_it(configured: Notebook) -> None:
    configured.shell.config.PerfmagicMagics.language = "zh"
    configured.run("%load_ext perfmagic")
    assert language() == "zh"
    configured.run('%config PerfmagicMagics.language = "en"')
    assert language() == "en"


def test_an_unknown_language_is_one_message_before_any_cell_has_run(
    bare: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFMAGIC_LANGUAGE", "xx")
    loaded = bare.run("%load_ext perfmagic")
    assert str(loaded.error) == "PERFMAGIC_LANGUAGE: no language called 'xx'\nHint: one of en, zh"
    assert "timeline" not in bare.shell.magics_manager.magics["cell"]
    monkeypatch.setenv("PERFMAGIC_LANGUAGE", "zh_CN.UTF-8")
    assert bare.run("%load_ext perfmagic").error is None
