"""One session of jax.profiler, in the place of torch's where a cell uses JAX without torch. JAX has one at a time."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from perfmagic.base.errors import CaptureError, TraceError
from perfmagic.base.language import phrase
from perfmagic.capture.owner import Owner
from perfmagic.capture.recording.host import file_in_new_folder
from perfmagic.trace.columns import Remark
from perfmagic.trace.formats.xplane import read_space
from perfmagic.trace.model import Trace


class JaxSession:
    """Records from open() until the owner it was given closes. A resource, and what the end of a recording awaits."""

    kind = "JAX"

    def __init__(self, jax: Any) -> None:
        self._jax, self._folder = jax, Owner()
        self._path: Path | None = None
        self._exported = b""
        self._said: list[Remark] = []

    def open(self, owner: Owner) -> None:
        """Begin to record; the owner takes everything. Raises CaptureError where JAX records already."""
        self.synchronize()
        owner.acquire(self)

    def synchronize(self) -> None:
        """Wait for every array that lives. JAX has no call that waits for its devices: what is computed for nobody may
        be missing at the end.
        """
        for array in self._jax.live_arrays():
            if not array.is_deleted():
                array.block_until_ready()

    def acquire(self) -> None:
        profiler = self._jax.profiler
        self._path = file_in_new_folder(self._folder).parent
        options = {}
        if hasattr(profiler, "ProfileOptions"):
            quiet = profiler.ProfileOptions()
            quiet.python_tracer_level = 0  # lines are followed by perfmagic itself, where they are wanted
            quiet.enable_hlo_proto = False
            options = {"profiler_options": quiet}
        try:
            profiler.start_trace(str(self._path), **options)
        except RuntimeError as error:
            self._folder.close()
            self._path = None
            raise CaptureError(
                f"jax.profiler records one block at a time, and refuses this one: {error}",
                hint="end the other recording first: jax.profiler.stop_trace(), or leave its with-block",
            ) from None

    def give_back(self) -> None:
        path, self._path = self._path, None
        if path is None:
            return
        try:
            if self._written(path) is None:
                self._jax.profiler.stop_trace()
            else:
                self._note_ended()
            written = self._written(path)
            self._exported = written.read_bytes() if written is not None else b""
        except RuntimeError as error:
            if self._written(path) is None and "No profile started" not in str(error):
                self._said.append(Remark("jax_failed", phrase("JAX's profiler recorded nothing: {error}", error=error)))
                with suppress(AttributeError, KeyError):  # else JAX takes it for going on, and refuses others
                    sys.modules["jax._src.profiler"]._profile_state.reset()
            else:
                self._note_ended()
        finally:
            self._folder.close()

    def read(self) -> Trace | None:
        """What it recorded, once the owner has closed; None where that is nothing."""
        exported, self._exported = self._exported, b""
        try:
            return read_space(exported, "JAX") if exported else None
        except TraceError:  # no record of JAX in it
            return None

    def remarks(self, trace: Trace | None) -> list[Remark]:
        """What is to be known of it beside what it recorded."""
        return [*self._said, *(trace.meta.notes if trace is not None else ())]

    def _note_ended(self) -> None:
        message = phrase("the cell ended JAX's profiler: what JAX did after that is not recorded")
        self._said.append(Remark("jax_ended", message))

    @staticmethod
    def _written(path: Path) -> Path | None:
        """The file of a recording that has ended."""
        return next(path.rglob("*.xplane.pb"), None)
