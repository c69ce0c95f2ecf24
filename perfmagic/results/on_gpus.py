"""The result of `%%timeline --on H100,A100,T4`: one run, predicted for several GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perfmagic.predict.model import DeviceModel
from perfmagic.results.result import Result
from perfmagic.results.timeline import TimelineResult


@dataclass(frozen=True, eq=False)
class OnGpusResult(Result):
    timelines: tuple[TimelineResult, ...]
    models: tuple[DeviceModel, ...]
    peak_bytes: int

    def text(self) -> str:
        return "\n\n".join(t.text() for t in self.timelines)

    def html(self) -> str:
        return self.text()

    def to_dict(self) -> dict[str, Any]:
        return {}
