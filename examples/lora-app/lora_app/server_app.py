"""The server: to FedAdaVR the adapter is the whole model."""

from logging import INFO

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.common.logger import log
from flwr.serverapp import Grid, ServerApp
from peft import get_peft_model_state_dict, set_peft_model_state_dict

from fedadavr.flower import FedAdaVR
from lora_app.task import evaluate, with_adapter

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train the adapter, and test it on modules that no client has."""
    config = context.run_config
    model = with_adapter(str(config["base"]))
    adapter = get_peft_model_state_dict(model)
    size, full = (sum(t.numel() for t in ts) for ts in (adapter.values(), model.parameters()))
    log(INFO, "per client: %d bytes travel each way (the model has %d), %d are remembered (int8)",
        4 * size, 4 * (full - size), size)  # fmt: skip

    def test(round: int, arrays: ArrayRecord) -> MetricRecord:
        set_peft_model_state_dict(model, arrays.to_torch_state_dict())
        loss, accuracy = evaluate(model)
        return MetricRecord({"loss": loss, "accuracy": accuracy})

    strategy = FedAdaVR(
        codec="int8",
        server_lr=float(config["server-lr"]),
        client_lr=float(config["client-lr"]),
        fraction_train=float(config["fraction-train"]),
        fraction_evaluate=0.0,
        store=str(config["store"]) or None,
    )
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(adapter),
        num_rounds=int(config["num-server-rounds"]),
        evaluate_fn=test,
    )
