"""The client: scikit-learn's SGD from the server's coefficients, on two of the ten digits."""

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

from fedadavr.data.partitions import PARTITIONS, deal
from fedadavr.flower import answer_identity

TEST = slice(1500, None)  # the last 297 digits are the server's

app = ClientApp()
answer_identity(app)  # so that the memory of this client survives restarts


def digits() -> tuple[np.ndarray, np.ndarray]:
    """All 1,797 digits that scikit-learn carries; a real client would read its own."""
    x, y = load_digits(return_X_y=True)
    return (x / 16).astype(np.float32), y


def classifier(arrays: ArrayRecord, lr: float = 0.05, seed: int = 0) -> SGDClassifier:
    """Logistic regression with these coefficients; a client need not have seen every class."""
    model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=lr, random_state=seed)
    model.classes_ = np.arange(10)
    model.coef_ = arrays["coef"].numpy().copy()
    model.intercept_ = arrays["intercept"].numpy().copy()
    return model


@app.train()
def train(message: Message, context: Context) -> Message:
    """Some epochs from the server's model."""
    config, node = context.run_config, context.node_config
    client, clients = int(node["partition-id"]), int(node["num-partitions"])
    round = int(message.content["config"]["server-round"])
    x, y = digits()
    x, y = x[: TEST.start], y[: TEST.start]
    rng = np.random.default_rng(42)  # the same parts at every client
    mine = deal(y, PARTITIONS["lq-2"](y, 10, clients, rng), rng)[client]
    seed = int(np.random.default_rng([42, round, client]).integers(2**31))
    model = classifier(message.content["arrays"], float(config["client-lr"]), seed)
    for _ in range(int(config["local-epochs"])):
        model.partial_fit(x[mine], y[mine])
    arrays = {"coef": Array(model.coef_), "intercept": Array(model.intercept_)}
    metrics = {"num-examples": len(mine), "accuracy": float(model.score(x[mine], y[mine]))}
    content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": MetricRecord(metrics)})
    return Message(content=content, reply_to=message)
