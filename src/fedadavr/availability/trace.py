"""trace: who is there stands in a CSV file with the columns client, from, to.

A line says that a client, by its number from 0 on, is there in the rounds `from` up to and with
`to`; an empty `to` means from then on. A client may have any number of lines, in any order.
"""

import csv
from pathlib import Path

import numpy as np

from fedadavr.availability.base import Availability, Clients, Counts, Mask
from fedadavr.availability.registry import availability

HEADER = ["client", "from", "to"]
NEVER = np.iinfo(np.int64).max  # the end of what has none


@availability("trace")
class Trace(Availability):
    """As a file says."""

    file: Path
    """CSV with the columns client, from, to; rounds are counted from 1, both ends belong to it."""
    period: int | None = None
    """After so many rounds the trace begins again; none: never."""

    def check(self) -> None:
        """The whole file is read."""
        if self.period is not None and self.period < 1:
            raise ValueError(f"period must be at least 1, got {self.period}")
        if "," in str(self.file):
            raise ValueError(f"file: the path {self.file} has a comma in it: rename it")
        object.__setattr__(self, "file", self.file.resolve())  # also from another folder
        object.__setattr__(self, "lines", read_lines(self.file))

    def check_clients(self, clients: Clients) -> None:
        """Nobody is named who is not there at all."""
        beyond = self._lines[:, 1] >= clients.number
        if beyond.any():
            number, client = self._lines[beyond][0, :2]
            raise ValueError(
                f"{self.file}, line {number}: there is no client {client}, they are numbered "
                f"from 0 to {clients.number - 1}"
            )

    @property
    def _lines(self) -> Counts:
        lines: Counts = self.__dict__["lines"]
        return lines

    def there(self, round: int, clients: Clients) -> Mask:
        """Those with a line that holds this round."""
        if self.period is not None:
            round = (round - 1) % self.period + 1
        _, client, begin, end = self._lines.T
        found = np.zeros(clients.number, bool)
        found[client[(begin <= round) & (round <= end)]] = True
        return found


def read_lines(path: Path) -> Counts:
    """A row for each line: its number, the client, the first and the last round."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file))
    except OSError as error:
        raise ValueError(f"file: {path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"file: {path} is no CSV: {error}") from None
    told = [word.strip().lower() for word in rows[0]] if rows else []
    if told != HEADER:
        raise ValueError(
            f"{path}, line 1: it must be {','.join(HEADER)}, got {','.join(told)[:60]!r}"
        )
    found = [_line(path, number, row) for number, row in enumerate(rows[1:], 2) if row]
    if not found:
        raise ValueError(f"{path} has no line below its header: nobody would ever be there")
    return np.array(found, np.int64)


def _line(path: Path, number: int, row: list[str]) -> tuple[int, int, int, int]:
    where = f"{path}, line {number}"
    if len(row) != len(HEADER):
        raise ValueError(f"{where}: it must have {len(HEADER)} values, got {len(row)}")
    values = []
    for name, text in zip(HEADER, row, strict=True):
        text = text.strip()
        if name == "to" and not text:
            values.append(int(NEVER))
            continue
        least = 0 if name == "client" else 1
        if not (text.isascii() and text.isdigit() and least <= int(text[:19]) and len(text) < 19):
            raise ValueError(
                f"{where}: {name} must be a whole number from {least} up, got {text[:40]!r}"
            )
        values.append(int(text))
    client, begin, end = values
    if end < begin:
        raise ValueError(f"{where}: it ends in round {end} before it begins in round {begin}")
    return number, client, begin, end
