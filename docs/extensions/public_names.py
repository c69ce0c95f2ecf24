"""Types in signatures lead to the page of their public name, wherever they are defined, and say nothing of JSON."""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING, Any

import perfmagic

if TYPE_CHECKING:
    from docutils.nodes import Element
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment


def setup(app: Sphinx) -> dict[str, Any]:
    """What Sphinx calls."""
    app.connect("builder-inited", _omit_json_constraints)
    app.connect("missing-reference", _resolved)
    return {"parallel_read_safe": True}


def _omit_json_constraints(_app: Sphinx) -> None:
    """Replace `Annotated[str, …]` by `str` in the annotations of public types: what it adds is for the schemas."""
    for name in (*perfmagic.__all__, *perfmagic.rows.__all__):
        shown = getattr(perfmagic.rows if name in perfmagic.rows.__all__ else perfmagic, name)
        for owner in inspect.getmro(shown) if inspect.isclass(shown) else ():
            if owner.__module__.partition(".")[0] == "perfmagic":
                getters = [value.fget for value in vars(owner).values() if isinstance(value, property)]
                for annotated in (owner, vars(owner).get("__init__"), *getters):
                    types = getattr(annotated, "__annotations__", {})
                    types.update({key: _plain_type(text) for key, text in types.items() if isinstance(text, str)})


def _plain_type(annotation: str) -> str:
    tree = ast.parse(annotation, mode="eval").body
    is_annotated = isinstance(tree, ast.Subscript) and ast.unparse(tree.value) == "Annotated"
    return ast.unparse(tree.slice.elts[0]) if is_annotated else annotation


def _resolved(app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: Element) -> Element | None:
    """The link to a public name; plain text for any other type, which has no page here."""
    if node.get("refdomain") != "py":
        return None
    name = node["reftarget"].rpartition(".")[2]
    public = f"perfmagic.rows.{name}" if name in perfmagic.rows.__all__ else f"perfmagic.{name}"
    if name in (*perfmagic.__all__, *perfmagic.rows.__all__) and node["reftarget"] != public:
        python = env.domains.python_domain
        found = python.resolve_xref(env, node["refdoc"], app.builder, "obj", public, node, shown)
        if found is not None:
            return found
    return shown if node.get("reftype") in ("class", "exc") else None  # of signatures; roles are checked
