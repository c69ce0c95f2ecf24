"""What is said of ranks whether their traces are kept or not."""

from typing import Any

from perfmagic.results import RanksResult


def not_replayed(found: RanksResult) -> dict[str, Any]:
    """Every word and number but those of a replay, which only kept traces allow."""
    told = found.to_dict()
    told["answers"] = {key: told["answers"][key] for key in ("decides", "total_ns", "warnings")}
    return told
