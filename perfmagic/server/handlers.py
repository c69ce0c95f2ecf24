"""GET perfmagic/timeline/PATH: the timeline of a trace file, or of a folder of ranks, for who may read contents."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import ensure_async, url_path_join
from tornado import web

from perfmagic.server.reading import UnreadableError

if TYPE_CHECKING:
    from perfmagic.server.readings import Readings

WAIT_S = 2.0  # then the browser gets the progress of the reading, and asks again: no proxy sees a silent connection
CHUNK_BYTES = 1 << 20


class TimelineHandler(APIHandler):
    """The timeline of what a path of the contents API names."""

    auth_resource = "contents"

    def initialize(self, readings: Readings) -> None:
        """Called by tornado for each request."""
        super().initialize()
        self.readings = readings

    async def prepare(self) -> None:  # type: ignore[override]  # as APIHandler has it
        """Refuse requests from another site's page: they carry the user's cookie, and reading a trace costs time."""
        if self.request.headers.get("Sec-Fetch-Site") == "cross-site":
            raise web.HTTPError(403, "timelines are not for pages of other sites")
        await super().prepare()

    @web.authenticated
    @authorized
    async def get(self, path: str) -> None:
        """Answer with one of these.

        200: four bytes (length of the header, little-endian), the header, the payload.  202: the progress of the
        reading, as JSON.  404: the contents API shows no such path.  422: what is wrong with the file, as JSON.
        """
        self.set_header("Cache-Control", "no-store")
        try:
            answer = await self.readings.get(await self._source(path), WAIT_S)
        except UnreadableError as error:
            self.set_status(422)
            self.finish({"message": error.message, "hint": error.hint})
            return
        if isinstance(answer, dict):
            self.set_status(202)
            self.finish(answer)
            return
        await self._send(answer)

    async def _send(self, timeline: IO[bytes]) -> None:
        loop = asyncio.get_running_loop()
        self.set_header("Content-Type", "application/octet-stream")
        with timeline as file:
            self.set_header("Content-Length", str(os.fstat(file.fileno()).st_size))
            while chunk := await loop.run_in_executor(None, file.read, CHUNK_BYTES):
                self.write(chunk)
                await self.flush()
        self.finish(set_content_type="application/octet-stream")

    async def _source(self, path: str) -> Path:
        """The file behind a path of the contents API. 404 for what that API does not show: hidden, absent, outside."""
        manager = self.contents_manager
        model = await ensure_async(manager.get(path, content=False))  # type: ignore[no-untyped-call]  # jupyter_server lacks its type
        if not hasattr(manager, "_get_os_path"):
            raise UnreadableError(
                "the files of this Jupyter server are not on its disk", "%trace opens the file in a notebook"
            )
        return Path(manager._get_os_path(model["path"].strip("/")))


def add_handlers(server: Any, readings: Readings) -> None:
    """Add the address to a Jupyter server."""
    address = url_path_join(server.web_app.settings["base_url"], r"perfmagic/timeline/(.+)")
    server.web_app.add_handlers(".*$", [(address, TimelineHandler, {"readings": readings})])
