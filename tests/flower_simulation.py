"""Runs in a process of its own: strategies in one Flower simulation (Ray) after the other.

python -m tests.flower_simulation same OUT    # the example app, several algorithms
python -m tests.flower_simulation bad OUT     # clients that answer in every wrong way
"""

from __future__ import annotations

import copy
import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT / "src"), str(ROOT), str(ROOT / "examples" / "flower-app")]
)
sys.path.insert(0, str(ROOT / "examples" / "flower-app"))

import numpy as np  # noqa: E402
from flwr.app import (  # noqa: E402
    Array,
    ArrayRecord,
    Context,
    Message,
    MetricRecord,
    RecordDict,
)  # fmt: skip
from flwr.clientapp import ClientApp  # noqa: E402
from flwr.serverapp import Grid, ServerApp  # noqa: E402
from flwr.simulation import run_simulation  # noqa: E402

from fedadavr.flower import FedAdaVR, Strategy, answer_identity  # noqa: E402

NODES, ROUNDS = 5, 4
CONFIG: dict[str, Any] = {
    "seed": 42, "partition": "dirichlet", "client-lr": 0.01, "momentum": 0.9, "local-epochs": 1,
    "batch-size": 20,
}  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "fedadavr-fp32": {"algorithm": "fedadavr", "codec": "fp32", "server_lr": 0.005},
    "fedadavr-int4": {"algorithm": "fedadavr", "codec": "int4", "server_lr": 0.005},
    "fedadavr-plus": {"algorithm": "fedadavr-plus", "codec": "int8", "server_lr": 0.005},
    "scaffold": {"algorithm": "scaffold", "client_momentum": 0.9},
    "fednova": {"algorithm": "fednova", "client_momentum": 0.9},
    "fedprox": {"algorithm": "fedprox", "mu": 0.1},
}


def same(out: Path) -> None:
    """The example's clients under several algorithms; one is stopped and resumed on the way."""
    from flower_app import client_app
    from flower_app.task import model

    app = answer_identity(ClientApp())

    @app.train()
    def train(message: Message, context: Context) -> Message:
        mine = copy.copy(context)
        mine.run_config = CONFIG  # as from `flwr run --run-config`
        return client_app.train(message, mine)

    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        for name, settings in CASES.items():
            stops = [ROUNDS]
            if name == "fedadavr-int4":
                settings = settings | {"store": f"lmdb:{out / 'store'}"}
                stops = [1, ROUNDS]
            for rounds in stops:
                strategy = Strategy(
                    fraction_train=0.4, fraction_evaluate=0.0, min_available_nodes=NODES,
                    client_lr=0.01, identity="ask", **settings,
                )  # fmt: skip
                first = ArrayRecord(model(42).state_dict())
                result = strategy.start(grid, first, rounds)
            arrays: dict[str, Any] = {key: a.numpy() for key, a in result.arrays.items()}
            np.savez(out / f"{name}.npz", **arrays)

    run_simulation(server, app, num_supernodes=NODES)


FAULTS = ("good", "nan", "shape", "missing", "extra", "integers", "raises", "weight", "good too")


def bad(out: Path) -> None:
    """Every client but two answers in a wrong way, in every round."""
    app = ClientApp()  # which does not tell its identity, either

    @app.train()
    def train(message: Message, context: Context) -> Message:
        fault = FAULTS[int(context.node_config["partition-id"])]
        arrays = message.content.array_records["arrays"]
        x = arrays["x"].numpy() - np.float32(0.5)
        n = arrays["bn.num_batches_tracked"].numpy()
        if fault == "nan":
            x[1] = np.nan
        if fault == "shape":
            x = x[:-1]
        if fault == "integers":
            x = x.astype(np.int64)
        if fault == "raises":
            raise RuntimeError("out of memory, say")
        arrays = ArrayRecord({"x": Array(x), "bn.num_batches_tracked": Array(np.asarray(n + 3))})
        metrics = MetricRecord({"num-examples": -1 if fault == "weight" else 10, "loss": 1.0})
        content: dict[str, Any] = {"arrays": arrays, "metrics": metrics}
        if fault == "missing":
            del content["arrays"]
        if fault == "extra":
            content["more"] = arrays
        return Message(content=RecordDict(content), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        fault = FAULTS[int(context.node_config["partition-id"])]
        if fault == "raises":
            raise RuntimeError("no")
        metrics = MetricRecord({"num-examples": 10, "accuracy": 0.5})
        content = RecordDict({} if fault == "missing" else {"metrics": metrics})
        return Message(content=content, reply_to=message)

    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = FedAdaVR(optimizer="sgd", server_lr=1.0, min_available_nodes=len(FAULTS))
        first = ArrayRecord(
            {
                "x": Array(np.zeros(3, np.float32)),
                "bn.num_batches_tracked": Array(np.array(0)),
            }
        )
        result = strategy.start(grid, first, 2)
        (out / "result.json").write_text(json.dumps({
            "train": {k: dict(v) for k, v in result.train_metrics_clientapp.items()},
            "evaluate": {k: dict(v) for k, v in result.evaluate_metrics_clientapp.items()},
            "x": result.arrays["x"].numpy().tolist(),
            "n": [str(a.numpy().dtype) + " " + str(a.numpy()) for a in [
                result.arrays["bn.num_batches_tracked"]]],
            "order": list(result.arrays),
        }))  # fmt: skip

    run_simulation(server, app, num_supernodes=len(FAULTS))


if __name__ == "__main__":
    {"same": same, "bad": bad}[sys.argv[1]](Path(sys.argv[2]))
