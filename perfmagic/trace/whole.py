"""Writing a file so that it appears whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from perfmagic.errors import TraceError


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[tuple[Path, IO[bytes]]]:
    """The file's path and a new file beside it to write to, which takes its name when the block has ended well.

    Raises TraceError where it cannot be written.
    """
    target = Path(path).expanduser()
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            yield target, file
        temporary.replace(target)
    except OSError as error:
        raise TraceError(f"{target.name} cannot be written: {error.strerror}", hint="choose another folder") from error
    finally:
        with suppress(OSError):  # is gone already where all went well
            temporary.unlink()
