"""The server: one line says which algorithm."""

import numpy as np
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from fedadavr.algorithms.registry import settings_of
from fedadavr.flower import Strategy
from flower_app.task import evaluate, model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train; with a store, go on from the last round that was committed."""
    config = context.run_config
    seed, name = int(config["seed"]), str(config["algorithm"])
    wanted = {
        "client_lr": float(config["client-lr"]),
        "server_lr": float(config["server-lr"]) or None,
        "codec": str(config["codec"]),
        "client_momentum": float(config["momentum"]),
    }
    net = model(seed)

    def central(round: int, arrays: ArrayRecord) -> MetricRecord:
        net.load_state_dict(arrays.to_torch_state_dict())
        loss, accuracy = evaluate(net)
        return MetricRecord({"loss": loss, "accuracy": accuracy})

    strategy = Strategy(
        algorithm=name,
        fraction_train=float(config["fraction-train"]),
        fraction_evaluate=0.0,
        min_available_nodes=int(config["min-nodes"]),
        store=str(config["store"]) or None,
        authenticated=bool(config["authenticated"]),
        identity="ask",  # also without a memory: all algorithms draw the same clients
        seed=seed,
        **{key: value for key, value in wanted.items() if key in settings_of(name)},
    )
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(net.state_dict()),
        num_rounds=int(config["num-server-rounds"]),
        evaluate_fn=central,
    )
    if config["out"]:
        arrays = {key: array.numpy() for key, array in result.arrays.items()}
        np.savez(str(config["out"]), **arrays)
