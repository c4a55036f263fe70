"""A real Flower deployment on loopback: TLS, registered keys, SQLite, an app without PyTorch."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.redis_servers import free_ports, wait_for

BIN = Path(sys.executable).parent

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "numbers"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []
[tool.hatch.build.targets.wheel]
packages = ["."]
[tool.flwr.app]
publisher = "tests"
[tool.flwr.app.components]
serverapp = "numbers_app.server_app:app"
clientapp = "numbers_app.client_app:app"
[tool.flwr.app.config]
rounds = 1
folder = ""
clients = ""
"""

SERVER = """
import json
import os
import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import ServerApp
from fedadavr.flower import FedAdaVR

app = ServerApp()

@app.main()
def main(grid, context):
    folder = str(context.run_config["folder"])
    strategy = FedAdaVR(
        codec="fp32", server_lr=0.1, store=f"lmdb:{folder}/memory", authenticated=True,
        min_available_nodes=2, fraction_evaluate=0.0,
        clients=str(context.run_config["clients"]) or None,
    )
    first = ArrayRecord({"x": Array(np.zeros(5, np.float32))})
    result = strategy.start(grid, first, int(context.run_config["rounds"]), timeout=150)
    metrics = {k: dict(v) for k, v in result.train_metrics_clientapp.items()}
    with open(f"{folder}/result.new", "w") as file:
        refused = sorted(strategy.identities.refused)
        json.dump({"metrics": metrics, "refused": refused}, file)
    os.rename(f"{folder}/result.new", f"{folder}/result.json")
"""

CLIENT = """
import time
from pathlib import Path
import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from fedadavr.flower import answer_identity

app = answer_identity(ClientApp())

@app.train()
def train(message, context):
    folder, client = Path(str(context.run_config["folder"])), str(context.node_config["client-id"])
    if (folder / f"hold-{client}").exists():
        (folder / f"holding-{client}").touch()
        until = time.monotonic() + 120
        while (folder / f"hold-{client}").exists() and time.monotonic() < until:
            time.sleep(0.1)
    x = message.content["arrays"]["x"].numpy() - np.float32(context.node_config["step"])
    reply = {"arrays": ArrayRecord({"x": Array(x)}), "metrics": MetricRecord({"num-examples": 7})}
    return Message(content=RecordDict(reply), reply_to=message)
"""


class Deployment:
    """A SuperLink and SuperNodes, each a process group that can be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (self.port,) = free_ports(1)
        self.env = os.environ | {
            "FLWR_HOME": str(folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.superlink: subprocess.Popen[bytes] | None = None
        self._write_app()
        self._make_certificates()
        self.start_superlink()

    def _write_app(self) -> None:
        app = self.folder / "app" / "numbers_app"
        app.mkdir(parents=True)
        (self.folder / "app" / "pyproject.toml").write_text(PYPROJECT)
        (app / "__init__.py").write_text("")
        (app / "server_app.py").write_text(SERVER)
        (app / "client_app.py").write_text(CLIENT)
        (self.folder / "flwr").mkdir()
        (self.folder / "flwr" / "config.toml").write_text(
            f'[superlink.here]\naddress = "127.0.0.1:{self.port}"\n'
            f'root-certificates = "{self.folder / "ca.crt"}"\n'
        )

    def _make_certificates(self) -> None:
        def openssl(*words: str) -> None:
            subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=CA",
                "-keyout", "ca.key", "-out", "ca.crt")  # fmt: skip
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost",
                "-keyout", "server.key", "-out", "server.csr")  # fmt: skip
        (self.folder / "san").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
        openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-days",
                "2", "-CAcreateserial", "-extfile", "san", "-out", "server.pem")  # fmt: skip

    def _begin(self, log: str, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / log).open("ab") as file:
            return subprocess.Popen(
                words, cwd=self.folder, env=self.env, stdout=file, stderr=file,
                start_new_session=True,
            )  # fmt: skip

    def start_superlink(self) -> None:
        self.superlink = self._begin(
            "superlink.log", "flower-superlink", "--ssl-ca-certfile", "ca.crt",
            "--ssl-certfile", "server.pem", "--ssl-keyfile", "server.key",
            "--enable-supernode-auth", "--database", "state.db", "--host", "127.0.0.1",
            "--port", str(self.port), "--disable-runtime-dependency-installation",
        )  # fmt: skip
        wait_for(self._answers, "the SuperLink", 60)

    def _answers(self) -> bool:
        import socket

        with socket.socket() as s:
            s.settimeout(1)
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def make_key(self, name: str, register: bool = True) -> None:
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", name],
            cwd=self.folder, check=True,
        )  # fmt: skip
        if register:
            done = self.flwr("supernode", "register", f"{name}.pub", "here")
            assert done.returncode == 0, done.stdout + done.stderr

    def start_node(self, name: str, client: str, step: float) -> None:
        (port,) = free_ports(1)
        self.nodes[name] = self._begin(
            f"{name}.log", "flower-supernode", "--root-certificates", "ca.crt", "--superlink",
            f"127.0.0.1:{self.port}", "--port", str(port), "--auth-supernode-private-key", name,
            "--node-config", f'client-id="{client}" step={step}',
        )  # fmt: skip

    def keep_starting(self, name: str, client: str, step: float) -> None:
        """A key is refused until the SuperLink notices that its last owner is gone: try again."""
        deadline = time.monotonic() + 150
        while time.monotonic() < deadline:
            self.start_node(name, client, step)
            try:
                self.nodes[name].wait(8)
            except subprocess.TimeoutExpired:
                return
        raise AssertionError(f"{name} was refused for 150 s")

    def flwr(self, *words: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["flwr", *words], cwd=self.folder, env=self.env, capture_output=True, text=True,
            timeout=timeout, check=False,
        )  # fmt: skip

    def begin_run(self, rounds: int, clients: str = "") -> subprocess.Popen[bytes]:
        (self.folder / "result.json").unlink(missing_ok=True)
        settings = f"rounds={rounds} folder='{self.folder}' clients='{clients}'"
        return self._begin("run.log", "flwr", "run", "app", "here", "--stream",
                           "--run-config", settings)  # fmt: skip

    def run(self, rounds: int, timeout: float = 180, clients: str = "") -> Any:
        process = self.begin_run(rounds, clients)
        return self.finish(process, timeout)

    def finish(self, process: subprocess.Popen[bytes], timeout: float = 180) -> Any:
        """What the run has written; the stream may outlive it."""
        result = self.folder / "result.json"
        wait_for(lambda: result.exists() or process.poll() is not None, "the run", timeout)
        assert result.exists(), (self.folder / "run.log").read_text()[-3000:]
        time.sleep(1)  # the ServerApp is reported as done
        kill(process)
        return json.loads(result.read_text())

    def stop(self) -> None:
        for process in [*self.nodes.values(), self.superlink]:
            if process is not None:
                kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """A process and all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
