"""Real Redis servers for the tests, on free loopback ports, stopped by their process ids."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import redis

PROGRAM = shutil.which("redis-server")


def free_ports(number: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(number)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class RedisServer:
    """One server with its own folder; it can be stopped and started again with its data.

    One that will be killed must write before it answers: else it may go back by a second.
    """

    def __init__(self, folder: Path, *, clustered: bool = False, killed: bool = False) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.port, self.bus = free_ports(2)
        self._words = [str(PROGRAM), "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                       "--appendonly", "yes", "--dir", str(folder), "--appendfsync",
                       "always" if killed else "everysec"]  # fmt: skip
        if clustered:
            self._words += ["--cluster-enabled", "yes", "--cluster-port", str(self.bus),
                            "--cluster-node-timeout", "1000"]  # fmt: skip
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        with (self.folder / "log").open("a") as log:
            self._process = subprocess.Popen(self._words, stdout=log, stderr=log)
        self.client: Any = redis.Redis(port=self.port)
        wait_for(self._answers, f"redis-server on port {self.port}")

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except (redis.ConnectionError, redis.exceptions.BusyLoadingError):
            return False

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def lose_data(self) -> None:
        """As on a disk that is gone; it must not be running."""
        shutil.rmtree(self.folder / "appendonlydir")

    def signal(self, number: int) -> None:
        self._process.send_signal(number)


class RedisCluster:
    """Three nodes that share the slots."""

    def __init__(self, folder: Path) -> None:
        self.nodes = [RedisServer(folder / str(k), clustered=True) for k in range(3)]
        edges = [0, 5461, 10923, 16384]
        for k, node in enumerate(self.nodes):
            node.client.execute_command(
                "CLUSTER", "ADDSLOTSRANGE", str(edges[k]), str(edges[k + 1] - 1)
            )
            node.client.execute_command("CONFIG", "SET", "cluster-require-full-coverage", "no")
            node.client.execute_command(
                "CLUSTER", "MEET", "127.0.0.1", str(self.nodes[0].port), str(self.nodes[0].bus)
            )
        wait_for(self.is_whole, "the cluster")

    def is_whole(self) -> bool:
        for node in self.nodes:
            info = node.client.execute_command("CLUSTER", "INFO")
            info = info if isinstance(info, dict) else dict(
                line.split(":") for line in info.decode().split()
            )  # fmt: skip
            if info["cluster_state"] != "ok" or int(info["cluster_slots_ok"]) != 16384:
                return False
            if int(info["cluster_known_nodes"]) != 3:
                return False
        return True

    @property
    def url(self) -> str:
        return self.nodes[0].url

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()


def wait_for(ready: object, what: str, seconds: float = 30) -> None:
    """Look again and again until it is ready; fail if it takes too long."""
    assert callable(ready)
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, f"{what} is not ready after {seconds:.0f} s"
        time.sleep(0.02)
