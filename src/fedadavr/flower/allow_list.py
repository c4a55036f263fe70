"""Who may take part, decided by the server: a list of nodes, by key or id, and their clients."""

from __future__ import annotations

import base64
import hashlib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedadavr.flower.ids import bad_id

FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


class AllowList:
    """Nodes that are let in, and the client that each of them is.

    Parameters
    ----------
    clients : str, Path or Mapping[str, str]
        A mapping, or a TOML file with one, from a node to its client's id. A node is the
        fingerprint of its public key, as `ssh-keygen -lf node.pub` prints it (SHA256:...), or its
        id, as `flwr supernode list` does.
    """

    def __init__(self, clients: str | Path | Mapping[str, str]) -> None:
        self._where = "clients" if isinstance(clients, Mapping) else str(clients)
        given = clients if isinstance(clients, Mapping) else _read(Path(clients))
        self._clients: dict[str, str] = {}
        for node, client in given.items():
            if not isinstance(node, str) or not (FINGERPRINT.fullmatch(node) or _is_id(node)):
                raise ValueError(
                    f"{self._where}: {node!r} is no node: it must be the fingerprint of its key "
                    "(SHA256:..., as ssh-keygen -lf prints it) or its id"
                )
            why = bad_id(client)
            if why:
                raise ValueError(f"{self._where}: the client of node {node} {why}")
            if client in self._clients.values():
                raise ValueError(f"{self._where}: client {client!r} stands there twice")
            self._clients[node] = client
        if not self._clients:
            raise ValueError(f"{self._where} lists no node: nobody could take part")

    def client_of(self, node: Any) -> str | None:
        """The client behind a node of Flower's (`NodeInfo`); None: it is not listed."""
        known = self._clients.get(str(node.node_id))
        return known or self._clients.get(fingerprint(node.public_key) or "")


def fingerprint(public_key: bytes) -> str | None:
    """The fingerprint of a key as Flower holds it (PEM), as OpenSSH prints it; None: no key."""
    from cryptography.hazmat.primitives import serialization

    try:
        key = serialization.load_pem_public_key(public_key)
        line = key.public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )  # fmt: skip
    except Exception:  # nodes without keys, and kinds of keys that OpenSSH does not have
        return None
    digest = hashlib.sha256(base64.b64decode(line.split()[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def _is_id(node: str) -> bool:
    return node.isascii() and node.isdigit() and int(node) < 2**64


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise ValueError(f"clients: {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"clients: {path} is not valid TOML: {error}") from None
