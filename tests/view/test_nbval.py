"""What notebooks are compared by: figures of a virtual clock stay, those of this machine do not."""

import configparser
import re

import pytest
import torch

import perfmagic
from perfmagic.view.nbval import sanitize_file


def compared(text: str) -> str:
    """What nbval compares of an output."""
    rules = configparser.RawConfigParser()
    rules.read_string(sanitize_file())
    for rule in rules.sections():
        text = re.sub(rules[rule]["regex"], rules[rule]["replace"], text)
    return text


@pytest.fixture
def predicted() -> list[str]:
    device = perfmagic.device("H100").type
    x = torch.ones(256, 256, device=device)
    once, twice = (perfmagic.bench(lambda n=n: [x @ x for _ in range(n)], name=f"of {n}") for n in (1, 2))
    runs = []
    for n in (1, 2):
        with perfmagic.timeline(device=device):
            [x @ x for _ in range(n)]
        runs.append(perfmagic.last())
    benches, timelines = perfmagic.compare(once, twice), perfmagic.compare(*runs)
    shown = [once, benches, runs[0], timelines]
    return [*(each.text() for each in shown), repr(once), repr(benches), repr(timelines)]


def test_what_a_model_gave_is_compared_with_its_figures(predicted: list[str]) -> None:
    for text in predicted:
        assert compared(text).startswith(text)


def test_another_figure_is_another_output(predicted: list[str]) -> None:
    for text in predicted:
        figure = re.search(r"\d+(?=\u00a0µs)", text)
        assert figure is not None
        other = text[: figure.start()] + str(int(figure[0]) + 1) + text[figure.end() :]
        assert compared(other) != compared(text)


def test_what_this_machine_took_is_not_compared() -> None:
    assert compared("predicted after 3.1 ms") == "predicted after DURATION"
    beside = "b is predicted to be slower than a: done about 120 µs (predicted) against {}"
    assert compared(beside.format("51.3 µs")) == compared(beside.format("49.8 µs"))
