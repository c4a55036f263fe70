"""The client's part of FedProx, SCAFFOLD and FedNova, for any PyTorch training loop."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from flwr.app import ArrayRecord, ConfigRecord, Message

from fedadavr.flower.strategy import CORRECTION, PROXIMAL, STEPS

if TYPE_CHECKING:
    import torch


class ClientHook:
    """Does what the server's algorithm asks, before each step of the client's optimizer.

    It adds the proximal term and the correction to the gradients and counts the steps; the training
    loop stays as it is::

        with ClientHook(message, model, optimizer) as hook:
            for x, y in batches:
                optimizer.zero_grad()
                loss(model(x), y).backward()
                optimizer.step()
        metrics = MetricRecord({"num-examples": n, **hook.metrics})

    The model must hold the weights that the message brings when the hook is made.
    """

    def __init__(
        self, message: Message, model: torch.nn.Module, optimizer: torch.optim.Optimizer
    ) -> None:
        self.steps = 0
        self._parameters = dict(model.named_parameters())
        self._mu = 0.0
        for record in message.content.values():
            if isinstance(record, ConfigRecord) and PROXIMAL in record:
                self._mu = float(record[PROXIMAL])  # type: ignore[arg-type]
        self._start = (
            {name: p.detach().clone() for name, p in self._parameters.items()} if self._mu else {}
        )
        sent = message.content.get(CORRECTION)
        self._correction: dict[str, Any] = {}
        if isinstance(sent, ArrayRecord):
            import torch

            self._correction = {
                name: torch.from_numpy(array.numpy()).to(self._parameters[name].device)
                for name, array in sent.items()
                if name
                in self._parameters  # tied weights and buffers have no gradient of their own
            }
        self._hook = optimizer.register_step_pre_hook(self._before_step)

    def _before_step(self, *_: Any) -> None:
        self.steps += 1
        for name, parameter in self._parameters.items():
            if parameter.grad is None:
                continue
            if self._mu:
                parameter.grad.add_(parameter.detach() - self._start[name], alpha=self._mu)
            if name in self._correction:
                parameter.grad.add_(self._correction[name])

    @property
    def metrics(self) -> dict[str, int]:
        """What the reply's metrics must tell the server."""
        return {STEPS: self.steps}

    def __enter__(self) -> ClientHook:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._hook.remove()
