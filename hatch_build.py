"""What an index shows of a release: links that lead somewhere. hatchling asks for it at every build.

PERFMAGIC_HOME is the address of the repository that the release is made in, https://HOST/OWNER/NAME; the release's
workflow sets it. With it the README's relative links and pictures become addresses of the files at the tag of this
version, and the project has urls. Without it the README is as it stands, and there are no urls.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

HOME = "PERFMAGIC_HOME"
# an attribute of a picture, a picture, a link; what has a scheme or stays on the page is not relative
RELATIVE = re.compile(r"""((?:src|srcset)="|!?\[[^\]]*\]\()(?![a-z][a-z0-9+.-]*:|#|/)([^")\s]+)(?=[")])""")
SUFFIXES = (".png", ".svg")


class HomeOfTheProject(MetadataHookInterface):
    """The fields `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set both fields, in place. Raises ValueError for an address that is none."""
        readme = Path(self.root, "README.md").read_text("utf-8")
        home = os.environ.get(HOME, "").rstrip("/")
        if home:
            source = Path(self.root, "perfmagic", "__init__.py").read_text("utf-8")
            tag = re.search(r'^__version__ = "(.+)"', source, re.MULTILINE)
            readme = absolute(readme, home, tag[1] if tag else "HEAD")
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
        metadata["urls"] = urls(home) if home else {}


def urls(home: str) -> dict[str, str]:
    """The links beside the README. Raises ValueError for an address that is none."""
    if not re.fullmatch(r"https://[\w.-]+(/[\w.-]+){2,}", home):
        raise ValueError(f"{HOME} is {home!r}; it must be https://HOST/OWNER/NAME")
    pages = {"Documentation": "tree/HEAD/docs", "Changes": "blob/HEAD/CHANGELOG.md", "Issues": "issues"}
    return {"Source": home} | {label: f"{home}/{place}" for label, place in pages.items()}


def absolute(text: str, home: str, tag: str) -> str:
    """The text with the addresses of files at a tag in place of relative links and pictures."""

    def addressed(match: re.Match[str]) -> str:
        place = match[2].removeprefix("./")
        kind = "raw" if place.split("#")[0].endswith(SUFFIXES) else "tree" if place.endswith("/") else "blob"
        return f"{match[1]}{home}/{kind}/{tag}/{place}"

    return RELATIVE.sub(addressed, text)
