"""Traces opened from the file browser: a Jupyter server has them read in a process and sends the timeline.

Nothing is imported here, so that a server without a trace to open pays for nothing.
"""

from __future__ import annotations

from typing import Any


def _load_jupyter_server_extension(server: Any) -> None:
    """Add the address of timelines to a Jupyter server; it calls this when it starts."""
    from perfmagic.server.handlers import add_handlers

    add_handlers(server)
