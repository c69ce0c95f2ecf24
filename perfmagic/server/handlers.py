"""GET perfmagic/timeline/PATH: the timeline of a trace file, or of a folder of ranks, for who may read contents."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import ensure_async, url_path_join
from tornado import web

from perfmagic.server.limits import limits_of
from perfmagic.server.outcomes import Refused
from perfmagic.server.readings import Readings

WAIT_S = 2.0  # then the browser is told how far the reading is, and asks again: no proxy sees a silent connection
CHUNK_BYTES = 1 << 20


class TimelineHandler(APIHandler):
    """The timeline of what a path of the contents API names."""

    auth_resource = "contents"

    def initialize(self, readings: Readings) -> None:
        """Called by tornado for each request."""
        super().initialize()
        self.readings = readings

    async def prepare(self) -> None:  # type: ignore[override]  # as APIHandler has it
        """Refuse what another site's page asks for: the cookie travels with it, and reading costs something."""
        if self.request.headers.get("Sec-Fetch-Site") == "cross-site":
            raise web.HTTPError(403, "timelines are not for pages of other sites")
        await super().prepare()

    @web.authenticated
    @authorized
    async def get(self, path: str) -> None:
        """Answer with one of these.

        200: four bytes (length of the header, little-endian), the header, the payload.  202: how far the reading is, as
        JSON.  404: the contents API shows no such path.  422: what is wrong with the file, as JSON.
        """
        self.set_header("Cache-Control", "no-store")
        try:
            made = await self.readings.get(await self._source(path), WAIT_S)
        except Refused as refused:
            self.set_status(422)
            self.finish({"message": refused.message, "hint": refused.hint})
            return
        if not isinstance(made, Path):
            self.set_status(202)
            self.finish(made)
            return
        await self._send(made)

    async def _send(self, made: Path) -> None:
        loop = asyncio.get_running_loop()
        self.set_header("Content-Type", "application/octet-stream")
        with made.open("rb") as file:
            self.set_header("Content-Length", str(os.fstat(file.fileno()).st_size))
            while chunk := await loop.run_in_executor(None, file.read, CHUNK_BYTES):
                self.write(chunk)
                await self.flush()
        self.finish(set_content_type="application/octet-stream")

    async def _source(self, path: str) -> Path:
        """Where a path of the contents API lies. 404 for what that API does not show: hidden, absent, outside."""
        manager = self.contents_manager
        model = await ensure_async(manager.get(path, content=False))  # type: ignore[no-untyped-call]  # of theirs
        if not hasattr(manager, "_get_os_path"):
            raise Refused("the files of this Jupyter server are not on its disk", "%trace opens the file in a notebook")
        return Path(manager._get_os_path(model["path"].strip("/")))


def add_handlers(server: Any) -> None:
    """Add the address to a Jupyter server."""
    readings = Readings(limits_of(server.config))
    address = url_path_join(server.web_app.settings["base_url"], r"perfmagic/timeline/(.+)")
    server.web_app.add_handlers(".*$", [(address, TimelineHandler, {"readings": readings})])
