"""The commands that the examples' READMEs show run as they stand, on Flower's own simulation."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flower_processes import BIN
from tests.redis_servers import free_ports, wait_for

pytestmark = pytest.mark.deployment
EXAMPLES = Path(__file__).parent.parent / "examples"


def commands(name: str) -> list[str]:
    """What a README tells to run, but for what makes an environment: this one is it."""
    text = (EXAMPLES / name / "README.md").read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    lines = [line for kind, block in blocks if not kind for line in block.splitlines()]
    return [line for line in lines if line.startswith(("flwr ", "fedadavr ", "python -m "))]


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment with no setting of Flower's but ports of our own; then its SuperLink's end."""
    http, control = free_ports(2)
    env = {key: value for key, value in os.environ.items() if not key.startswith("FLWR_")}
    env |= {
        "HOME": str(tmp_path), "PATH": f"{BIN}:{os.environ['PATH']}",
        "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(http),
        "FLWR_LOCAL_CONTROL_API_PORT": str(control),
    }  # fmt: skip
    yield env
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if str(tmp_path).encode() in words or f"127.0.0.1:{http}".encode() in words:
            os.kill(int(process.name), signal.SIGTERM)


@pytest.mark.parametrize("name", ["flower-app", "sklearn-app", "lora-app"])
def test_the_commands_of_an_example_run(name: str, tmp_path: Path, fresh: dict[str, str]) -> None:
    """One after the other; every run completes."""
    if name == "lora-app":
        pytest.importorskip("peft", reason="NOT TESTED: lora-app needs peft and transformers")
    shown = commands(name)
    assert any(line.startswith("flwr run") for line in shown)
    for line in shown:
        here = re.sub(r"/tmp/[a-z]+-(app|base)", str(tmp_path), line)
        done = subprocess.run(
            here, shell=True, cwd=EXAMPLES / name, env=fresh, capture_output=True, text=True,
            timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, line + "\n" + done.stdout[-3000:] + done.stderr[-3000:]
    expected = ["finished:completed"] * sum(line.startswith("flwr run") for line in shown)
    wait_for(lambda: not {"pending", "starting", "running"} & {*statuses(fresh)}, "the runs", 60)
    assert statuses(fresh) == expected


def statuses(env: dict[str, str]) -> list[str]:
    """How the runs ended; the log that `flwr run` streams may lack lines."""
    words = ["flwr", "list", "--format", "json"]
    told = subprocess.run(words, cwd=env["HOME"], env=env, check=True, capture_output=True)
    return [run["status"] for run in json.loads(told.stdout)["runs"]]
