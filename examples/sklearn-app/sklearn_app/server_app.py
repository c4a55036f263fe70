"""The server: Flower's FedAvg would be here, FedAdaVR is."""

import numpy as np
from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from fedadavr.flower import FedAdaVR
from sklearn_app.client_app import TEST, classifier, digits

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train, and test every model on digits that no client has."""
    config = context.run_config
    x, y = digits()

    def test(round: int, arrays: ArrayRecord) -> MetricRecord:
        return MetricRecord({"accuracy": float(classifier(arrays).score(x[TEST], y[TEST]))})

    strategy = FedAdaVR(
        codec="int8",
        server_lr=float(config["server-lr"]),
        client_lr=float(config["client-lr"]),
        fraction_train=float(config["fraction-train"]),
        fraction_evaluate=0.0,
        store=str(config["store"]) or None,
    )
    zeros = {"coef": np.zeros((10, 64), np.float32), "intercept": np.zeros(10, np.float32)}
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord({name: Array(zero) for name, zero in zeros.items()}),
        num_rounds=int(config["num-server-rounds"]),
        evaluate_fn=test,
    )
