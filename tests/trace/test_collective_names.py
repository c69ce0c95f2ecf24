"""Operations between ranks have one spelling, whoever recorded them."""

import pytest

from perfmagic.trace.names import collective_name


@pytest.mark.parametrize(
    ("recorded", "spelled"),
    [
        ("allreduce", "all_reduce"),
        ("all_reduce", "all_reduce"),
        ("allreduce_coalesced", "all_reduce_coalesced"),
        ("_allgather_base", "_all_gather_base"),
        ("all_to_all", "all_to_all"),
        ("alltoall_base", "all_to_all_base"),
        ("_reduce_scatter_base", "_reduce_scatter_base"),
        ("broadcast", "broadcast"),
        ("send 0->1", "send 0->1"),
    ],
)
def test_a_name_is_spelled_as_torch_does(recorded: str, spelled: str) -> None:
    assert collective_name(recorded) == spelled
