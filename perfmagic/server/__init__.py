"""Traces opened from the file browser: a Jupyter server has them read in a process and sends the timeline.

Nothing heavy is imported here: a server without a trace to open does not pay for it.
"""

from __future__ import annotations

from typing import Any


def _load_jupyter_server_extension(server: Any) -> None:
    """Add the address of timelines to a Jupyter server; it calls this when it starts."""
    from perfmagic.server.handlers import add_handlers
    from perfmagic.server.reading import limits_from
    from perfmagic.server.readings import Readings

    add_handlers(server, Readings(limits_from(server.config)))
