"""How operations between ranks are spelled, whoever recorded them."""

from __future__ import annotations

import re

# behind the name of one that never came about, as other ranks did not take part
GIVEN_UP = ", given up"
_ALL = re.compile(r"all_?(reduce|gather|to_?all)")


def collective_name(recorded: str) -> str:
    """As torch.distributed spells it: NCCL's record has "allreduce" beside torch's own "all_reduce"."""
    return _ALL.sub(lambda found: f"all_{found[1].replace('toall', 'to_all')}", recorded)
