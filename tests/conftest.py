"""What several tests need."""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.redis_servers import PROGRAM, RedisCluster, RedisServer

ROOT = Path(__file__).parent.parent

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background by a shell, which has it ignored, and every program that a test
    # starts would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def mine(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file that docs/your-own.md shows: a small data set, model and algorithm."""
    text = (ROOT / "docs" / "your-own.md").read_text()
    code = re.search(r"```python\n# mine.py\n(.*?)```", text, re.DOTALL)
    assert code
    path = tmp_path_factory.mktemp("own") / "mine.py"
    path.write_text(code.group(1))
    return str(path)


@pytest.fixture
def said() -> Iterator[list[str]]:
    """What stands in Flower's log."""
    logger = logging.getLogger("flwr")
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)


@pytest.fixture
def full_data() -> Path:
    """The folder with the full data sets; without it, the test says what it needs."""
    given = os.environ.get("FEDADAVR_DATA")
    if not given:
        pytest.skip("needs the full data sets: set FEDADAVR_DATA to their folder")
    return Path(given)


def _need_redis() -> None:
    if PROGRAM is None:
        pytest.skip(
            "NOT TESTED: the Redis store needs redis-server, which is not installed "
            "(apt-get install redis-server)"
        )


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis server."""
    _need_redis()
    server = RedisServer(tmp_path_factory.mktemp("redis") / "server")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    """A cluster of three."""
    _need_redis()
    cluster = RedisCluster(tmp_path_factory.mktemp("cluster") / "nodes")
    yield cluster
    cluster.stop()


@pytest.fixture(params=["lmdb", "redis", "cluster"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store can be made, of every durable kind."""
    if request.param == "lmdb":
        return f"lmdb:{tmp_path / 'store'}"
    servers = request.getfixturevalue(
        f"redis_{'server' if request.param == 'redis' else 'cluster'}"
    )
    return f"{servers.url}?name={uuid4().hex}"
