"""What is claimed of a simulated device's pace, and of several devices on the cores of one host."""

from perfmagic.trace.host_limits import pace_remarks, paced, said_of, shared_cores
from perfmagic.trace.model import DeviceInfo

MS = 1_000_000
SLOW = [("mm", 5_400, 60 * MS)] * 3
FAST = [("add", 10 * MS, 1 * MS)] * 2
WORDS = "paced: matmul 400 TFLOP/s"


def test_a_pace_is_claimed_where_it_was_reached() -> None:
    found = paced(FAST)
    assert (said_of(WORDS, found), pace_remarks(found)) == (WORDS, [])
    assert said_of(WORDS, paced([])) == WORDS  # nothing that has a pace was launched


def test_a_pace_that_no_op_reached_is_not_claimed_and_the_remark_has_both_times() -> None:
    found = paced(SLOW)
    assert said_of(WORDS, found) == "pace not reached: matmul 400 TFLOP/s"
    (remark,) = pace_remarks(found)
    assert remark.words.replace("\u00a0", " ") == (
        "pace not reached: mm took 60.0 ms, 5.40 µs asked; this host is the limit"
    )
    assert remark.numbers == {"needed_ns": 180 * MS, "asked_ns": 16_200}


def test_a_pace_that_some_ops_reached_is_claimed_in_part_and_the_worst_are_named() -> None:
    found = paced([*FAST, *SLOW, ("bmm", MS, 9 * MS), ("mv", MS, 2 * MS)])
    assert said_of("paced by f", found) == "pace reached in part by f"
    (remark,) = pace_remarks(found)
    assert remark.words.replace("\u00a0", " ") == (
        "pace not reached: mm took 60.0 ms, 5.40 µs asked; bmm took 9.00 ms, 1.00 ms asked; 1 other op too; "
        "this host is the limit"
    )


def test_devices_share_cores_only_where_several_without_a_pace_worked() -> None:
    bare = [DeviceInfo(i, "sim", f"sim:{i}") for i in range(2)]
    with_pace = DeviceInfo(1, "sim", "sim:1", "paced: mm ≥ 3 ms")
    (remark,) = shared_cores(bare)
    assert (remark.kind, remark.numbers) == ("shared_cores", {"n_devices": 2})
    assert 'perfmagic.devices(2, "sim", pace="matmul=50ms")' in remark.words
    for worked in (bare[:1], [bare[0], with_pace], [DeviceInfo(0, "cuda", "A100"), DeviceInfo(1, "cuda", "A100")]):
        assert shared_cores(worked) == []
