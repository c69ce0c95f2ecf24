"""Docstrings as pages of the site: what is a name, what is code, what are words."""

import importlib.util
from pathlib import Path

FILE = Path(__file__).resolve().parents[1] / "docs" / "extensions" / "docstrings.py"
SPEC = importlib.util.spec_from_file_location("docstrings", FILE)
docstrings = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(docstrings)
LONG = "the device to run on, as torch names it, or one of the words of the simulated one, and then some more words"


def test_each_name_is_an_item_also_where_two_share_a_line() -> None:
    shown = docstrings.restructured(
        "low, high (None): both in seconds.  n: how many.  Not a name: text.\nRaises OptionError."
    )
    assert shown == (
        "- ``low``, ``high`` (None): both in seconds.\n\n- ``n``: how many. Not a name: text.\n\nRaises OptionError."
    )


def test_a_filled_line_goes_on_and_a_short_one_ends() -> None:
    shown = docstrings.restructured(f"kind: {LONG}\nwhich are few.\nA sentence of its own.")
    assert shown == f"- ``kind``: {LONG} which are few.\n\nA sentence of its own."


def test_code_stays_code_over_empty_lines_and_examples_stay_examples() -> None:
    shown = docstrings.restructured("Words:\n\n    with a:\n\n        b_*()\n\n>>> 1 * 2\n2")
    assert shown == "Words:\n\n.. code-block:: python\n\n    with a:\n\n        b_*()\n\n>>> 1 * 2\n2"


def test_only_code_emphasis_and_pages_are_marked() -> None:
    shown = docstrings.restructured("`a_b` of *done*, a_b_ | **n; see docs/words.md, 2 * 3")
    assert shown == "``a_b`` of *done*, a\\_b\\_ \\| \\*\\*n; see :doc:`docs/words.md </docs/words>`, 2 \\* 3"
