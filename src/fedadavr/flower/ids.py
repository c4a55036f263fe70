"""What may be a client's id, and how what clients say is shown in a log."""

from __future__ import annotations

from typing import Any

LONGEST = 128  # bytes of a client's id
RESERVED = "node:"  # begins the ids that the server gives to clients without one


def bad_id(client: Any) -> str | None:
    """Why this cannot be a client's id, as the end of a sentence; None if it can."""
    if not isinstance(client, str):
        return f"must be named by a string, not {type(client).__name__}"
    if not client:
        return "has an empty id"
    try:
        size = len(client.encode())
    except UnicodeEncodeError:
        return "has an id that is not valid Unicode"
    if size > LONGEST:
        return f"has an id of {size} bytes, more than {LONGEST}"
    if not client.isprintable():
        return "has an id with characters that cannot be printed"
    if client.startswith(RESERVED):
        return f"has an id that begins with {RESERVED!r}, which is the server's to give"
    return None


def one_line(text: Any, most: int = 60) -> str:
    """What a client says, in one line that is not too long; what cannot be printed is escaped."""
    said = text if isinstance(text, str) else str(text)
    short = said if len(said) <= most else f"{said[: most - 3]}..."
    return short if short.isprintable() else repr(short)[1:-1]
