"""The client: trains its adapter on its own module, and sends the adapter alone."""

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from peft import get_peft_model_state_dict, set_peft_model_state_dict

from fedadavr.flower import answer_identity
from lora_app.task import LENGTH, batch, next_characters, sources, with_adapter

app = ClientApp()
answer_identity(app)  # so that the memory of this client survives restarts


@app.train()
def train(message: Message, context: Context) -> Message:
    """Some steps from the server's adapter."""
    config, client = context.run_config, int(context.node_config["partition-id"])
    torch.set_num_threads(1)
    model = with_adapter(str(config["base"]))
    set_peft_model_state_dict(model, message.content["arrays"].to_torch_state_dict())
    adapter = [p for p in model.parameters() if p.requires_grad]
    adam = torch.optim.AdamW(adapter, lr=float(config["client-lr"]))
    rng = np.random.default_rng([42, int(message.content["config"]["server-round"]), client])
    text, losses = sources()[0][client], []
    for _ in range(int(config["local-steps"])):
        x = batch(text, int(config["batch-size"]), rng)
        loss, _ = next_characters(model, x)
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    metrics = {"num-examples": len(text) // LENGTH, "loss": sum(losses) / len(losses)}
    content = {
        "arrays": ArrayRecord(get_peft_model_state_dict(model)),
        "metrics": MetricRecord(metrics),
    }
    return Message(content=RecordDict(content), reply_to=message)
