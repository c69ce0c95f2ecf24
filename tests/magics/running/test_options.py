"""The first line of a magic."""

import pytest

from perfmagic.base.errors import OptionError
from perfmagic.magics.running.options import Parser


@pytest.fixture
def parser():
    parser = Parser("%%bench", "summary", form="[code]")
    parser.add_name()
    parser.add_argument("-n", type=int)
    parser.add_argument("--time", type=float)
    parser.add_argument("-q", action="store_true")
    return parser


@pytest.mark.parametrize(
    ("line", "n", "rest"),
    [
        ("", None, ""),
        ("-n 5", 5, ""),
        ("-n5 x = 1", 5, "x = 1"),
        ("-n 5 -q x = 'a  b'", 5, "x = 'a  b'"),
        ("x - n", None, "x - n"),
        ("-q -- -x", None, "-x"),
        ("-n 5 f(a, *b)", 5, "f(a, *b)"),
    ],
)
def test_options_end_where_the_code_begins(parser, line, n, rest):
    options, code = parser.split(line)
    assert (options.n, code) == (n, rest)


def test_a_value_may_be_joined_or_quoted(parser):
    assert parser.split("--time=2.5 x")[0].time == 2.5
    assert parser.split("--time '2.5' x")[1] == "x"


@pytest.mark.parametrize("line", ["-o 1x", "-o class", "-n five", "-z", "-n"])
def test_a_wrong_option_is_one_error_that_names_the_magic(parser, line):
    with pytest.raises(OptionError, match="%%bench"):
        parser.split(line)


def test_help_shows_one_percent_sign_too_few_nowhere(parser):
    assert "usage: %%bench [options] [code]" in parser.format_help()
