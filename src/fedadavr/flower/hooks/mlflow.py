"""A run's metrics for MLflow."""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Mapping
from logging import INFO

from flwr.app import ArrayRecord

from fedadavr.flower.hooks.hook import History, Metrics, Outcome, need, scalars
from fedadavr.flower.log import log


class MLflow:
    """Logs each round's metrics with MLflow, the round as their step; needs `mlflow-skinny`.

    Characters that MLflow does not allow in names become "_".

    Parameters
    ----------
    experiment : str
        The experiment's name; made if missing.
    uri : str, optional
        Where to track, as in "sqlite:///mlflow.db" or "http://HOST:PORT". None: as MLflow has
        it, `MLFLOW_TRACKING_URI` or else the file mlflow.db in the working folder.
    run_id : str, optional
        A run to go on with, as a resumed run does. MLflow takes no metric back: of a round that is
        made again, the first values stay.
    run_name : str, optional
        A name for a new run.
    tags : Mapping[str, str], optional
        Tags for a new run.
    """

    def __init__(
        self,
        experiment: str,
        *,
        uri: str | None = None,
        run_id: str | None = None,
        run_name: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        mlflow = need("mlflow", "MLflow", "mlflow-skinny")
        self._metric = mlflow.entities.Metric
        self._client = mlflow.MlflowClient(tracking_uri=uri)
        self.experiment, self.run_id = experiment, run_id
        self._given, self._name, self._tags = run_id, run_name, dict(tags or {})
        self._running = False
        self._logged: dict[str, set[int]] = {}  # the rounds that the run has, by metric

    def begin(self, history: History) -> None:
        """Start MLflow's run, or go on with the one that was named."""
        self._outcome = Outcome()
        if self._given is None:
            known = self._client.get_experiment_by_name(self.experiment)
            number = (
                self._client.create_experiment(self.experiment)
                if known is None
                else known.experiment_id
            )
            run = self._client.create_run(number, tags=self._tags, run_name=self._name)
            self.run_id = run.info.run_id
        else:
            self._client.update_run(self._given, status="RUNNING")
        self._running, self._logged = True, {}
        log(INFO, "MLflow's run is %s, of experiment %s", self.run_id, self.experiment)

    def __call__(self, round: int, arrays: ArrayRecord, metrics: Metrics) -> None:
        """Log a round's metrics."""
        if not self._running:
            self.begin({})
        now = int(time.time() * 1000)
        rows = [
            self._metric(name, value, now, round)
            for name, value in ((_allowed(n), value) for n, value in scalars(metrics).items())
            if round not in self._rounds(name)
        ]
        self._client.log_batch(self.run_id, metrics=rows)

    def _rounds(self, name: str) -> set[int]:
        """The rounds of a metric that a run had which is gone on with."""
        if self._given is None:
            return set()
        if name not in self._logged:
            known = self._client.get_metric_history(self.run_id, name)
            self._logged[name] = {metric.step for metric in known}
        return self._logged[name]

    def end(self) -> None:
        """End MLflow's run, as failed if an exception ends ours."""
        if self._running:
            status = "FAILED" if self._outcome.failed else "FINISHED"
            self._client.set_terminated(self.run_id, status)
            self._running = False


def _allowed(name: str) -> str:
    """A name as MLflow takes it: some characters, no empty parts, and not too long."""
    return posixpath.normpath(re.sub(r"[^\w\-. :/]", "_", name))[:250]
