"""What is lost on more ranks, and to what."""

from dataclasses import replace

import pytest

from perfmagic.analysis.ranks.ranks import ranks_of
from perfmagic.analysis.ranks.scaling import (
    RunOfRanks,
    conclude_scaling,
    describe_scaling,
    efficiency,
    lost_parts,
    run_of,
    scaling_table,
)
from perfmagic.base.errors import OptionError
from perfmagic.base.language import Words
from tests.analysis.build import US
from tests.analysis.findings.build import plain
from tests.analysis.ranks.test_ranks import rank

MS = 1_000_000
ONE = RunOfRanks(100 * MS, 90.0 * MS, 0.0, 0.0, 0.0, 8, compute_known=True)


def run(time: float, compute: float, waiting: float = 0, moving: float = 0, core: float | None = 0) -> RunOfRanks:
    """A run by its parts, in ms."""
    waited = None if core is None else core * MS
    return RunOfRanks(round(time * MS), compute * MS, waiting * MS, moving * MS, waited, 8, compute_known=True)


def test_parts_of_a_run_are_means_of_the_ranks_and_add_up_to_its_time() -> None:
    found = run_of(ranks_of([rank(0), rank(1, compute_us=800)]))
    # four rounds of 1 ms, in which Python takes 20 µs; what rank 1 computes longer, rank 0 waits
    assert (found.compute_ns, found.exposed_waiting_ns) == (4 * (500 + 800) / 2 * US, 4 * 300 / 2 * US)
    assert found.exposed_transfer_ns == 4 * 180 * US
    (row,) = scaling_table({2: found}, "weak")
    parts = (row.compute_ns, row.exposed_waiting_ns, row.exposed_transfer_ns, row.rest_ns)
    assert sum(parts) == row.time_ns == found.time_ns


def test_the_losses_add_up_to_what_is_lost() -> None:
    table = scaling_table({1: ONE, 4: run(160, 92, waiting=10, moving=40)}, "weak")
    lost = lost_parts(table[0], table[1])
    assert lost == pytest.approx(
        {"compute_ns": 2 * MS, "exposed_waiting_ns": 10 * MS, "exposed_transfer_ns": 40 * MS, "rest_ns": 8 * MS}
    )
    assert sum(lost.values()) == pytest.approx(table[1].lost_ns)
    strong = scaling_table({1: ONE, 4: run(70, 60, moving=5)}, "strong")
    assert strong[1].ideal_ns == pytest.approx(25 * MS)
    assert sum(lost_parts(strong[0], strong[1]).values()) == pytest.approx(strong[1].lost_ns)


@pytest.mark.parametrize(
    ("many", "scaling", "words"),
    [
        (run(160, 92, 10, 40), "weak", "of the 60.0 ms lost 40.0 ms is exposed communication with data moving"),
        (run(160, 92, 40, 10), "weak", "of the 60.0 ms lost 40.0 ms is waiting for other ranks"),
        (run(160, 145, 0, 5), "weak", "of the 60.0 ms lost 55.0 ms is longer compute"),
        (run(70, 60, 0, 5), "strong", "of the 45.0 ms lost 37.5 ms is compute that more ranks do not shorten"),
        (run(160, 90, 0, 5), "weak", "55.0 ms is time with neither compute nor communication"),
        (
            run(160, 110, 17, 15),
            "weak",
            "of the 60.0 ms lost 20.0 ms is longer compute; 17.0 ms is waiting for other ranks",
        ),
    ],
)
def test_the_sentence_names_what_most_is_lost_to(many: RunOfRanks, scaling: str, words: str) -> None:
    said = plain(describe_scaling(scaling_table({1: ONE, 4: many}, scaling), scaling))  # type: ignore[arg-type]
    assert said.endswith(words) or words in said
    assert said.startswith(f"{scaling.capitalize()} scaling from 1 to 4 ranks is ")


def test_where_nothing_notable_is_lost_no_cause_is_named() -> None:
    assert plain(describe_scaling(scaling_table({1: ONE, 2: run(103, 90)}, "weak"), "weak")) == (
        "Weak scaling from 1 to 2 ranks is 97 % efficient: the cell takes 103 ms, ideally 100 ms"
    )
    assert "less than the ideal 50.0 ms" in plain(
        describe_scaling(scaling_table({1: ONE, 2: run(30, 25)}, "strong"), "strong")
    )
    concluded = conclude_scaling(scaling_table({1: ONE, 2: run(103, 90, moving=9)}, "weak"), "weak")
    assert isinstance(concluded.decides, Words)  # there is a translation
    assert (plain(concluded.decides), concluded.proposals) == (
        "Weak scaling from 1 to 2 ranks is 97 % efficient: 103 ms, ideally 100 ms",
        (),
    )


def test_compute_that_is_not_recorded_is_not_blamed_on_python() -> None:
    table = scaling_table({1: replace(ONE, compute_ns=0.0), 2: run(160, 0, moving=5)}, "weak")
    words = plain(describe_scaling(table, "weak", compute_known=False))
    assert "55.0 ms is time of which nothing is recorded" in words
    assert "Python" not in words


def test_more_ranks_than_cores_are_said_with_how_long_they_waited() -> None:
    def words(core: float | None, cores: int = 2) -> str:
        many = replace(run(160, 92, 10, 40, core), cores=cores)
        return plain(describe_scaling(scaling_table({1: ONE, 4: many}, "weak"), "weak")).partition(". ")[2]

    assert words(12) == "4 ranks on 2 cores: a rank waited 12.0 ms for a core, all its threads added up"
    assert words(31).endswith("which may be all that is lost")
    assert words(None) == "4 ranks on 2 cores: how long they waited for one is not known here"
    assert words(31, cores=4) == ""


def test_strong_scaling_shares_one_work() -> None:
    rows = efficiency({1: 100.0, 2: 60.0, 4: 40.0}, "strong")
    assert [row.speedup for row in rows] == pytest.approx([1, 100 / 60, 2.5])
    assert [row.efficiency_frac for row in rows] == pytest.approx([1, 100 / 120, 0.625])


def test_weak_scaling_gives_each_rank_the_same_work() -> None:
    rows = efficiency({4: 207.0, 1: 164.0, 2: 178.0}, "weak")
    assert [row.ranks for row in rows] == [1, 2, 4]
    assert [row.efficiency_frac for row in rows] == pytest.approx([1, 164 / 178, 164 / 207])
    assert [row.speedup for row in rows] == pytest.approx([1, 2 * 164 / 178, 4 * 164 / 207])


def test_without_one_rank_the_fewest_are_the_measure() -> None:
    assert [row.efficiency_frac for row in efficiency({2: 10.0, 4: 10.0}, "strong")] == [1, 0.5]


@pytest.mark.parametrize(("times", "scaling"), [({}, "weak"), ({1: 0.0}, "weak"), ({1: 1.0}, "both")])
def test_what_cannot_be_compared_raises_an_error(times: dict[int, float], scaling: str) -> None:
    with pytest.raises(OptionError):
        efficiency(times, scaling)  # type: ignore[arg-type]
