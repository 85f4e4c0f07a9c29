"""Write a file as a whole or not at all."""

import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], content: str | bytes, *, durable: bool = False) -> None:
    """Replace the file at `path`: a reader, or the next start after a crash, sees the old file or the new one.

    A link is followed to the file it points to, and an existing file keeps its permissions. `durable` returns only
    when the content is on the disk, for what must survive a power cut.
    """
    path = Path(path).resolve()
    # In the same folder, so that the last step is a rename; a name of its own for each writer.
    part = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        with part.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            shutil.copymode(path, part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
