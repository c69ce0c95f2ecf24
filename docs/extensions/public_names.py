"""Types in signatures lead to the page of their public name, wherever they are defined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import perfmagic

if TYPE_CHECKING:
    from docutils.nodes import Element
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment


def setup(app: Sphinx) -> dict[str, Any]:
    """What Sphinx calls."""
    app.connect("missing-reference", _resolved)
    return {"parallel_read_safe": True}


def _resolved(app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: Element) -> Element | None:
    """The link to a public name; plain text for any other type, which has no page here."""
    if node.get("refdomain") != "py":
        return None
    name = node["reftarget"].rpartition(".")[2]
    if name in perfmagic.__all__ and node["reftarget"] != f"perfmagic.{name}":
        python = env.domains.python_domain
        found = python.resolve_xref(env, node["refdoc"], app.builder, "obj", f"perfmagic.{name}", node, shown)
        if found is not None:
            return found
    return shown if node.get("reftype") in ("class", "exc") else None  # of signatures; roles are checked
