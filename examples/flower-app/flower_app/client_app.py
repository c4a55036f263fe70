"""The client: an ordinary PyTorch loop, and a hook that serves every algorithm."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedadavr.flower import ClientHook, answer_identity
from flower_app.task import batches, federation, model

app = ClientApp()
answer_identity(app)  # so that the memory of this client survives restarts


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train from the server's model on this client's digits."""
    config, node = context.run_config, context.node_config
    client, seed = int(node["partition-id"]), int(config["seed"])
    torch.set_num_threads(1)
    net = model(seed)
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    sgd = torch.optim.SGD(
        net.parameters(), lr=float(config["client-lr"]), momentum=float(config["momentum"])
    )
    data = federation(str(config["partition"]), int(node["num-partitions"]), seed)
    losses = []
    with ClientHook(message, net, sgd) as hook:
        for x, y in batches(data, client, int(message.content["config"]["server-round"]), config):
            sgd.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(x), y)
            loss.backward()
            sgd.step()
            losses.append(loss.item())
    metrics = {
        "num-examples": len(data.train_parts[client]),
        "loss": sum(losses) / len(losses),
        **hook.metrics,
    }
    content = RecordDict(
        {"arrays": ArrayRecord(net.state_dict()), "metrics": MetricRecord(metrics)}
    )
    return Message(content=content, reply_to=message)
