"""The complete works, cut into speaking roles as LEAF (Caldas et al. 2018) cuts them.

A role is a name followed by a period on an indented line; deeper indented lines go on with its
speech. "The Comedy of Errors" is set without indentation. The rules, with their quirks, are those
that give LEAF's 1,129 roles and 4,226,158 windows of 80 letters; two checks below hold them to it.
"""

from __future__ import annotations

import re
from collections import defaultdict

ALPHABET = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
LENGTH = 80
ROLES, WINDOWS = 1129, 4_226_158

_BYLINE = "by William Shakespeare"
_LAST_LINE = 124_195  # after it comes what is not a play
_NAME = r"([a-zA-Z][a-zA-Z ]*)\. (.*)"
_INDENTED = (re.compile(f"  {_NAME}"), re.compile(r"    (.*)"))
_FLAT = (re.compile(_NAME), re.compile(r"(.*)"))


def read_roles(text: str) -> dict[str, str]:
    """What each role says, by `PLAY_ROLE`; roles too short for one window are left out."""
    lines = text.replace("\r\n", "\n").split("\n")[1:]
    bylines = [i for i, line in enumerate(lines) if _BYLINE in line]
    if len(bylines) < 2:
        raise ValueError("this is not the edition of the complete works that LEAF parses")
    roles: dict[str, list[str]] = {}
    for play, speeches in _plays(lines[: _LAST_LINE + 1], bylines[1] - 5):
        for role, said in speeches.items():
            if len(said) > 2 and len(speeches) > 1:
                name = re.sub(r"\W+", "_", f"{play}_{role}".replace(" ", "_"))
                roles.setdefault(name, []).extend(said)
    texts = {name: re.sub(r"   *", " ", " ".join(said) + " ") for name, said in roles.items()}
    return {name: said for name, said in texts.items() if len(said) > LENGTH}


def _plays(lines: list[str], start: int) -> list[tuple[str, dict[str, list[str]]]]:
    """Each play's title and what its roles say."""
    plays: list[tuple[str, dict[str, list[str]]]] = []
    speeches: dict[str, list[str]] = {}
    role, flat = None, False
    for i in range(start, len(lines)):
        line = lines[i]
        if _BYLINE in line:
            title = next(lines[i - k].strip() for k in range(2, 8) if lines[i - k].strip())
            speeches, role, flat = defaultdict(list), None, title == "THE COMEDY OF ERRORS"
            plays.append((title, speeches))
            continue
        opening, going_on = _FLAT if flat else _INDENTED
        if match := opening.match(line):
            role = match.group(1).upper()
            if flat and role.startswith("ACT "):
                role = None
            else:
                speeches[role].append(match.group(2))
        elif role and (match := going_on.match(line)):
            if flat and match.group(1).startswith("<"):
                role = None
            else:
                speeches[role].append(match.group(1))
    return plays
