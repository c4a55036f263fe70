"""A run's metrics for Weights & Biases."""

from __future__ import annotations

from typing import Any

from flwr.app import ArrayRecord

from fedadavr.flower.hooks.hook import History, Metrics, Outcome, need, scalars


class WandB:
    """Logs each round's metrics with wandb, the round as its step; needs `wandb`.

    Parameters
    ----------
    project : str
        The project's name.
    mode : str
        "offline" keeps all in the folder `wandb` until `wandb sync`; "online" sends it.
    **init : Any
        What else `wandb.init` takes. With an `id`, a resumed run goes on with the run of that id;
        offline each part is a folder with that id, and `wandb sync` sends them in order.
    """

    def __init__(self, project: str, *, mode: str = "offline", **init: Any) -> None:
        self._wandb = need("wandb", "WandB", "wandb")
        # Of a run of the user's own that is open, wandb would otherwise give us that one.
        self._init = {"reinit": "create_new"} | init | {"project": project, "mode": mode}
        if init.get("id") is not None:
            self._init.setdefault("resume", "allow")
        self.run: Any = None

    def begin(self, history: History) -> None:
        """Start wandb's run."""
        self._outcome = Outcome()
        self.run = self._wandb.init(**self._init)

    def __call__(self, round: int, arrays: ArrayRecord, metrics: Metrics) -> None:
        """Log a round's metrics."""
        if self.run is None:
            self.begin({})
        self.run.log(scalars(metrics), step=round, commit=True)  # else it waits for the next

    def end(self) -> None:
        """Finish wandb's run, as failed if an exception ends ours."""
        if self.run is not None:
            self.run.finish(exit_code=int(self._outcome.failed))
            self.run = None
