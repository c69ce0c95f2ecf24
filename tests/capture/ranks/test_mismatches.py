"""Ranks that call what does not fit together: each raises the same words, none dies, and the next cell works."""

from collections.abc import Iterator

import pytest

from .conftest import USE, Cells, messages

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["cpu", "sim"])
def two(request: pytest.FixtureRequest) -> Iterator[Cells]:
    """Two ranks, whose tensors are on their device."""
    pytest.importorskip("torch")
    cells = Cells(2, device=request.param)
    cells.run(f"{USE}\nd = perfmagic.device()\nt = t.to(d)\ndef done():\n    return t.sum().item()")
    yield cells
    cells.session.close()


def ones(n: str) -> str:
    return f"torch.ones({n}, device=d)"


BYTES = "rank 0 is in {0} of 40 bytes of float32 (line 2), rank 1 is in {0} of 80 bytes of float32 (line 2)"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (f"dist.all_reduce({ones('20 if rank else 10')})", BYTES.format("all_reduce")),
        (f"dist.broadcast({ones('20 if rank else 10')}, 0)", BYTES.format("broadcast")),
        (
            f"dist.all_reduce({ones('10')}.to(torch.int32 if rank else torch.float32))",
            (
                "rank 0 is in all_reduce of 40 bytes of float32 (line 2), rank 1 is in all_reduce of 40 bytes of int32 "
                "(line 2)"
            ),
        ),
        (
            f"dist.broadcast({ones('10')}, rank)",
            "rank 0 is in broadcast from rank 0 (line 2), rank 1 is in broadcast from rank 1 (line 2)",
        ),
        (
            f"dist.all_reduce({ones('10')}, [dist.ReduceOp.SUM, dist.ReduceOp.MAX][rank])",
            "rank 0 is in all_reduce with SUM (line 2), rank 1 is in all_reduce with MAX (line 2)",
        ),
        (
            "if rank:\n    dist.broadcast(t, 0)\nelse:\n    dist.all_reduce(t)",
            "rank 0 is in all_reduce (line 5), rank 1 is in broadcast (line 3)",
        ),
        (
            f"dist.all_gather_into_tensor({ones('6 if rank else 4')}, {ones('3 if rank else 2')})",
            (
                "rank 0 is in all_gather_into_tensor of 16 bytes of float32 (line 2), "
                "rank 1 is in all_gather_into_tensor of 24 bytes of float32 (line 2)"
            ),
        ),
        (
            f"dist.reduce_scatter_tensor({ones('3 if rank else 2')}, {ones('6 if rank else 4')})",
            (
                "rank 0 is in reduce_scatter_tensor of 16 bytes of float32 (line 2), "
                "rank 1 is in reduce_scatter_tensor of 24 bytes of float32 (line 2)"
            ),
        ),
        (
            f"dist.all_to_all_single({ones('3')}, {ones('3')}, [1, 2], [2, 1])",
            "in all_to_all rank 0 has 2 elements for rank 0 (line 2), which expects 1 (line 2)",
        ),
    ],
)
def test_collectives_that_do_not_match_are_named_by_each_rank(two: Cells, body: str, said: str) -> None:
    assert two.works()  # the first collective
    end = two.run(f"{body}\ndone()")
    hint = "Hint: all ranks of a group make the same calls in the same order"
    turn = end.failures[0].text.splitlines()[0].removeprefix(f"collectives do not match: {said}, each its ")
    assert turn in ("1st collective", "2nd collective", "3rd collective")  # of those since the groups were renewed
    assert [failure.text for failure in end.failures] == [
        f"collectives do not match: {said}, each its {turn}\n{hint}"
    ] * 2
    assert [failure.type for failure in end.failures] == ["CommunicationError"] * 2
    assert messages(end) == [f"CommunicationError on ranks 0, 1: collectives do not match: {said}, each its {turn}"]
    assert end.hang == ""
    assert two.works()


@pytest.mark.parametrize(
    ("sent", "received", "of_send", "of_recv"),
    [
        ("torch.ones(10)", "torch.ones(20)", "40 bytes of float32", "80 bytes of float32"),
        ("torch.ones(20)", "torch.ones(10)", "80 bytes of float32", "40 bytes of float32"),
        ("torch.ones(4).int()", "torch.ones(4)", "16 bytes of int32", "16 bytes of float32"),
    ],
)
def test_messages_of_another_size_or_type_are_named_by_both_ends(
    two: Cells, sent: str, received: str, of_send: str, of_recv: str
) -> None:
    end = two.run(
        f"if rank:\n    dist.recv({received}.to(d))\nelse:\n    dist.send({sent}.to(d), 1)\n"
        "torch.ones(1, device=d).item()\nif d.type == 'sim': torch.sim.synchronize()"
    )
    said = f"rank 0 is in send of {of_send} to rank 1 (line 5), rank 1 is in recv of {of_recv} from rank 0 (line 3)"
    assert messages(end) == [f"CommunicationError on ranks 0, 1: messages do not match: {said}"]
    assert two.works()


def test_operations_after_a_mismatch_fail_with_the_same_message(two: Cells) -> None:
    end = two.run(
        f"works = [dist.all_reduce({ones('5 + rank')}, async_op=True), dist.all_reduce(t, async_op=True)]\n"
        "works[1].wait()\ndone()"
    )
    assert messages(end)[0].startswith(
        "CommunicationError on ranks 0, 1: collectives do not match: rank 0 is in all_red"
    )
    assert two.works()


def test_the_one_rank_that_differs_is_named(three: Cells) -> None:
    end = three.run("dist.all_reduce(torch.ones(3 if rank == 1 else 2))")
    assert [failure.rank for failure in end.failures] == [0, 1, 2]
    assert messages(end)[0].startswith(
        "CommunicationError on ranks 0–2: collectives do not match: ranks 0, 2 are in all_reduce of 8 bytes of float32 "
        "(line 2), rank 1 is in all_reduce of 12 bytes of float32 (line 2), each its "
    )
    assert len(messages(end)) == 1
    assert three.works()


def test_a_third_rank_is_freed_from_what_a_mismatch_keeps_from_it(three: Cells) -> None:
    end = three.run("if rank == 2:\n    use()\nelif rank:\n    dist.recv(torch.ones(3), 0)\nelse:\n    dist.send(t, 1)")
    assert messages(end)[0].startswith(
        "CommunicationError on ranks 0, 1: messages do not match: rank 0 is in send of 32 "
    )
    assert messages(end)[1] == (
        "rank 2 was freed on line 3 while it waited in all_reduce: rank 0 failed on line 7 with CommunicationError"
    )
    assert three.works()
