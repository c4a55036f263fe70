# ruff: noqa
# fmt: off
"""Each algorithm as a strategy of its own name.

Written by `python -m fedadavr.flower.stub`, from the algorithms' settings: do not edit.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from flwr.app import MetricRecord, RecordDict

from fedadavr.flower.identity import Naming
from fedadavr.flower.loop import Hook
from fedadavr.flower.resuming import Resume
from fedadavr.flower.strategy import Strategy
from fedadavr.stores.compression import Compress

class FedAdaVR(Strategy):
    """FedAdaVR: remembers every client's last update, and steps with an adaptive optimizer.

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | Literal['learned'] | None, default None
        Rate of the server's step; learned: from round to round, which None is, too, if it can be.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default None
        Serve a mean of the models so far, late ones most; None: where the rate is learned.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    codec : Literal['fp32', 'fp16', 'int8', 'int4', 'int8-block', 'int4-block', 'nf4', 'rot4', 'rot3', 'rot2', 'rot1'] | str, default 'fp32'
        Stored as fp32, fp16, int8, int4, int8-block, int4-block, nf4, rot4, rot3, rot2 or rot1.
    population : int | Mapping[str, int] | None, default None
        How many clients there are, or their sizes; None: those seen so far.
    prune_after : int | None, default None
        Forget a client that was not seen for so many rounds; None: never.
    rounding_seed : int | None, default None
        Round what is stored up or down at random, by this seed; None: to the nearest.
    staleness_half_life : float | None, default None
        After so many rounds what is remembered of a client counts half; None: always the same.
    weighting : Literal['cohort', 'population', 'ht'], default 'cohort'
        The first sum's weights: n_i/a; n_i/P, as the paper reads literally; or N n_i/(|S| P).
    server_lr_start : float | None, default None
        The first rate of one that is learned; None: as large as is safe.
    optimizer : Literal['sgd', 'momentum', 'adagrad', 'adam', 'adabelief', 'yogi', 'lamb'] | str, default 'adam'
        sgd, momentum, adagrad, adam, adabelief, yogi or lamb.
    beta1 : float | None, default None
        Decay of the first moment; None: the optimizer's default.
    beta2 : float | None, default None
        Decay of the second moment; None: the optimizer's default.
    eps : float | None, default None
        Added to the denominator; None: the optimizer's default.
    weight_decay : float, default 0.0
        Added to the pseudo-gradient, times w.
    trust_ratio : Literal['tensor', 'global'], default 'tensor'
        LAMB only: one ratio per tensor, or one for the model.
    eta : float | Literal['learned'] | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | Literal['learned'] | None
        Flower's name of `server_lr`.
    beta_1 : float | None
        Flower's name of `beta1`.
    beta_2 : float | None
        Flower's name of `beta2`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | Literal["learned"] | None = None,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = None,
        snapshot_every: int | None = None,
        codec: Literal["fp32", "fp16", "int8", "int4", "int8-block", "int4-block", "nf4", "rot4", "rot3", "rot2", "rot1"] | str = "fp32",
        population: int | Mapping[str, int] | None = None,
        prune_after: int | None = None,
        rounding_seed: int | None = None,
        staleness_half_life: float | None = None,
        weighting: Literal["cohort", "population", "ht"] = "cohort",
        server_lr_start: float | None = None,
        optimizer: Literal["sgd", "momentum", "adagrad", "adam", "adabelief", "yogi", "lamb"] | str = "adam",
        beta1: float | None = None,
        beta2: float | None = None,
        eps: float | None = None,
        weight_decay: float = 0.0,
        trust_ratio: Literal["tensor", "global"] = "tensor",
        eta: float | Literal["learned"] | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | Literal["learned"] | None = ...,
        beta_1: float | None = ...,
        beta_2: float | None = ...,
    ) -> None: ...

class FedAdaVRQuant(Strategy):
    """FedAdaVR with its memory quantized (`codec`).

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | Literal['learned'] | None, default None
        Rate of the server's step; learned: from round to round, which None is, too, if it can be.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default None
        Serve a mean of the models so far, late ones most; None: where the rate is learned.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    codec : Literal['fp32', 'fp16', 'int8', 'int4', 'int8-block', 'int4-block', 'nf4', 'rot4', 'rot3', 'rot2', 'rot1'] | str, default 'fp16'
        Stored as fp32, fp16, int8, int4, int8-block, int4-block, nf4, rot4, rot3, rot2 or rot1.
    population : int | Mapping[str, int] | None, default None
        How many clients there are, or their sizes; None: those seen so far.
    prune_after : int | None, default None
        Forget a client that was not seen for so many rounds; None: never.
    rounding_seed : int | None, default None
        Round what is stored up or down at random, by this seed; None: to the nearest.
    staleness_half_life : float | None, default None
        After so many rounds what is remembered of a client counts half; None: always the same.
    weighting : Literal['cohort', 'population', 'ht'], default 'cohort'
        The first sum's weights: n_i/a; n_i/P, as the paper reads literally; or N n_i/(|S| P).
    server_lr_start : float | None, default None
        The first rate of one that is learned; None: as large as is safe.
    optimizer : Literal['sgd', 'momentum', 'adagrad', 'adam', 'adabelief', 'yogi', 'lamb'] | str, default 'adam'
        sgd, momentum, adagrad, adam, adabelief, yogi or lamb.
    beta1 : float | None, default None
        Decay of the first moment; None: the optimizer's default.
    beta2 : float | None, default None
        Decay of the second moment; None: the optimizer's default.
    eps : float | None, default None
        Added to the denominator; None: the optimizer's default.
    weight_decay : float, default 0.0
        Added to the pseudo-gradient, times w.
    trust_ratio : Literal['tensor', 'global'], default 'tensor'
        LAMB only: one ratio per tensor, or one for the model.
    eta : float | Literal['learned'] | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | Literal['learned'] | None
        Flower's name of `server_lr`.
    beta_1 : float | None
        Flower's name of `beta1`.
    beta_2 : float | None
        Flower's name of `beta2`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | Literal["learned"] | None = None,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = None,
        snapshot_every: int | None = None,
        codec: Literal["fp32", "fp16", "int8", "int4", "int8-block", "int4-block", "nf4", "rot4", "rot3", "rot2", "rot1"] | str = "fp16",
        population: int | Mapping[str, int] | None = None,
        prune_after: int | None = None,
        rounding_seed: int | None = None,
        staleness_half_life: float | None = None,
        weighting: Literal["cohort", "population", "ht"] = "cohort",
        server_lr_start: float | None = None,
        optimizer: Literal["sgd", "momentum", "adagrad", "adam", "adabelief", "yogi", "lamb"] | str = "adam",
        beta1: float | None = None,
        beta2: float | None = None,
        eps: float | None = None,
        weight_decay: float = 0.0,
        trust_ratio: Literal["tensor", "global"] = "tensor",
        eta: float | Literal["learned"] | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | Literal["learned"] | None = ...,
        beta_1: float | None = ...,
        beta_2: float | None = ...,
    ) -> None: ...

class FedAdaVRNoVR(Strategy):
    """FedAdaVR without its memory.

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | Literal['learned'] | None, default None
        Rate of the server's step; learned: from round to round; None: the optimizer's own.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default False
        Serve a mean of the models so far, in which late ones count most; train on the last.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    server_lr_start : float | None, default None
        The first rate of one that is learned; None: as large as is safe.
    optimizer : Literal['sgd', 'momentum', 'adagrad', 'adam', 'adabelief', 'yogi', 'lamb'] | str, default 'adam'
        sgd, momentum, adagrad, adam, adabelief, yogi or lamb.
    beta1 : float | None, default None
        Decay of the first moment; None: the optimizer's default.
    beta2 : float | None, default None
        Decay of the second moment; None: the optimizer's default.
    eps : float | None, default None
        Added to the denominator; None: the optimizer's default.
    weight_decay : float, default 0.0
        Added to the pseudo-gradient, times w.
    trust_ratio : Literal['tensor', 'global'], default 'tensor'
        LAMB only: one ratio per tensor, or one for the model.
    eta : float | Literal['learned'] | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | Literal['learned'] | None
        Flower's name of `server_lr`.
    beta_1 : float | None
        Flower's name of `beta1`.
    beta_2 : float | None
        Flower's name of `beta2`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | Literal["learned"] | None = None,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = False,
        snapshot_every: int | None = None,
        server_lr_start: float | None = None,
        optimizer: Literal["sgd", "momentum", "adagrad", "adam", "adabelief", "yogi", "lamb"] | str = "adam",
        beta1: float | None = None,
        beta2: float | None = None,
        eps: float | None = None,
        weight_decay: float = 0.0,
        trust_ratio: Literal["tensor", "global"] = "tensor",
        eta: float | Literal["learned"] | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | Literal["learned"] | None = ...,
        beta_1: float | None = ...,
        beta_2: float | None = ...,
    ) -> None: ...

class FedAdaVRNoOpt(Strategy):
    """FedAdaVR without its optimizer.

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | None, default None
        Rate of the server's step; None: 1 for plain steps, the optimizer's own for adaptive ones.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default False
        Serve a mean of the models so far, in which late ones count most; train on the last.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    codec : Literal['fp32', 'fp16', 'int8', 'int4', 'int8-block', 'int4-block', 'nf4', 'rot4', 'rot3', 'rot2', 'rot1'] | str, default 'fp32'
        Stored as fp32, fp16, int8, int4, int8-block, int4-block, nf4, rot4, rot3, rot2 or rot1.
    population : int | Mapping[str, int] | None, default None
        How many clients there are, or their sizes; None: those seen so far.
    prune_after : int | None, default None
        Forget a client that was not seen for so many rounds; None: never.
    rounding_seed : int | None, default None
        Round what is stored up or down at random, by this seed; None: to the nearest.
    staleness_half_life : float | None, default None
        After so many rounds what is remembered of a client counts half; None: always the same.
    weighting : Literal['cohort', 'population', 'ht'], default 'cohort'
        The first sum's weights: n_i/a; n_i/P, as the paper reads literally; or N n_i/(|S| P).
    eta : float | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | None
        Flower's name of `server_lr`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | None = None,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = False,
        snapshot_every: int | None = None,
        codec: Literal["fp32", "fp16", "int8", "int4", "int8-block", "int4-block", "nf4", "rot4", "rot3", "rot2", "rot1"] | str = "fp32",
        population: int | Mapping[str, int] | None = None,
        prune_after: int | None = None,
        rounding_seed: int | None = None,
        staleness_half_life: float | None = None,
        weighting: Literal["cohort", "population", "ht"] = "cohort",
        eta: float | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | None = ...,
    ) -> None: ...

class FedAdaVRPlus(Strategy):
    """FedAdaVR with a memory of kinds of clients, and a trust that is learned.

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | Literal['learned'] | None, default None
        Rate of the server's step; learned: from round to round, which None is, too, if it can be.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default None
        Serve a mean of the models so far, late ones most; None: where the rate is learned.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    codec : Literal['fp32', 'fp16', 'int8', 'int4', 'int8-block', 'int4-block', 'nf4', 'rot4', 'rot3', 'rot2', 'rot1'] | str, default 'fp32'
        Stored as fp32, fp16, int8, int4, int8-block, int4-block, nf4, rot4, rot3, rot2 or rot1.
    population : int | Mapping[str, int] | None, default None
        How many clients there are, or their sizes; None: those seen so far.
    prune_after : int | None, default None
        Forget a client that was not seen for so many rounds; None: never.
    rounding_seed : int | None, default None
        Round what is stored up or down at random, by this seed; None: to the nearest.
    staleness_half_life : float | None, default None
        After so many rounds what is remembered of a client counts half; None: always the same.
    server_lr_start : float | None, default None
        The first rate of one that is learned; None: as large as is safe.
    optimizer : Literal['sgd', 'momentum', 'adagrad', 'adam', 'adabelief', 'yogi', 'lamb'] | str, default 'adam'
        sgd, momentum, adagrad, adam, adabelief, yogi or lamb.
    beta1 : float | None, default None
        Decay of the first moment; None: the optimizer's default.
    beta2 : float | None, default None
        Decay of the second moment; None: 0.99 where the rate is learned, else the optimizer's.
    eps : float | None, default None
        Added to the denominator; None: the optimizer's default.
    weight_decay : float, default 0.0
        Added to the pseudo-gradient, times w.
    trust_ratio : Literal['tensor', 'global'], default 'tensor'
        LAMB only: one ratio per tensor, or one for the model.
    memories : Sequence[str] | str, default 'own+centers'
        own, centers, or both; in place of centers, any other memory by its name.
    centers : int, default 10
        How many kinds of clients there are at most.
    center_similarity : float, default 0.5
        A reply whose cosine with every center is less opens a new one.
    center_rate : float, default 0.5
        How far one reply moves its center.
    trust : float | Literal['learned'], default 'learned'
        How far the memories are trusted: learned, or a number from 0 to 1.
    trust_decay : float, default 0.9
        Decay of the average that trust is learned from.
    sampler : Literal['uniform', 'kinds'], default 'uniform'
        Cohorts drawn uniformly, or with clients of the kinds whose centers are oldest in them.
    eta : float | Literal['learned'] | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | Literal['learned'] | None
        Flower's name of `server_lr`.
    beta_1 : float | None
        Flower's name of `beta1`.
    beta_2 : float | None
        Flower's name of `beta2`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | Literal["learned"] | None = None,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = None,
        snapshot_every: int | None = None,
        codec: Literal["fp32", "fp16", "int8", "int4", "int8-block", "int4-block", "nf4", "rot4", "rot3", "rot2", "rot1"] | str = "fp32",
        population: int | Mapping[str, int] | None = None,
        prune_after: int | None = None,
        rounding_seed: int | None = None,
        staleness_half_life: float | None = None,
        server_lr_start: float | None = None,
        optimizer: Literal["sgd", "momentum", "adagrad", "adam", "adabelief", "yogi", "lamb"] | str = "adam",
        beta1: float | None = None,
        beta2: float | None = None,
        eps: float | None = None,
        weight_decay: float = 0.0,
        trust_ratio: Literal["tensor", "global"] = "tensor",
        memories: Sequence[str] | str = "own+centers",
        centers: int = 10,
        center_similarity: float = 0.5,
        center_rate: float = 0.5,
        trust: float | Literal["learned"] = "learned",
        trust_decay: float = 0.9,
        sampler: Literal["uniform", "kinds"] = "uniform",
        eta: float | Literal["learned"] | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | Literal["learned"] | None = ...,
        beta_1: float | None = ...,
        beta_2: float | None = ...,
    ) -> None: ...

class FedVARP(Strategy):
    """FedVARP: a memory of every client, plain steps.

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | None, default None
        Rate of the server's step; None: 1 for plain steps, the optimizer's own for adaptive ones.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default False
        Serve a mean of the models so far, in which late ones count most; train on the last.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    codec : Literal['fp32', 'fp16', 'int8', 'int4', 'int8-block', 'int4-block', 'nf4', 'rot4', 'rot3', 'rot2', 'rot1'] | str, default 'fp32'
        Stored as fp32, fp16, int8, int4, int8-block, int4-block, nf4, rot4, rot3, rot2 or rot1.
    population : int | Mapping[str, int] | None, default None
        How many clients there are, or their sizes; None: those seen so far.
    prune_after : int | None, default None
        Forget a client that was not seen for so many rounds; None: never.
    rounding_seed : int | None, default None
        Round what is stored up or down at random, by this seed; None: to the nearest.
    staleness_half_life : float | None, default None
        After so many rounds what is remembered of a client counts half; None: always the same.
    weighting : Literal['uniform', 'examples'], default 'uniform'
        Each client counts the same, as its authors have it; or by its examples, in both sums.
    eta : float | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | None
        Flower's name of `server_lr`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | None = None,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = False,
        snapshot_every: int | None = None,
        codec: Literal["fp32", "fp16", "int8", "int4", "int8-block", "int4-block", "nf4", "rot4", "rot3", "rot2", "rot1"] | str = "fp32",
        population: int | Mapping[str, int] | None = None,
        prune_after: int | None = None,
        rounding_seed: int | None = None,
        staleness_half_life: float | None = None,
        weighting: Literal["uniform", "examples"] = "uniform",
        eta: float | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | None = ...,
    ) -> None: ...

class FedStale(Strategy):
    """FedVARP that trusts its memory by a fixed share (`beta`).

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | None, default None
        Rate of the server's step; None: 1 for plain steps, the optimizer's own for adaptive ones.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default False
        Serve a mean of the models so far, in which late ones count most; train on the last.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    codec : Literal['fp32', 'fp16', 'int8', 'int4', 'int8-block', 'int4-block', 'nf4', 'rot4', 'rot3', 'rot2', 'rot1'] | str, default 'fp32'
        Stored as fp32, fp16, int8, int4, int8-block, int4-block, nf4, rot4, rot3, rot2 or rot1.
    population : int | Mapping[str, int] | None, default None
        How many clients there are, or their sizes; None: those seen so far.
    prune_after : int | None, default None
        Forget a client that was not seen for so many rounds; None: never.
    rounding_seed : int | None, default None
        Round what is stored up or down at random, by this seed; None: to the nearest.
    staleness_half_life : float | None, default None
        After so many rounds what is remembered of a client counts half; None: always the same.
    weighting : Literal['uniform', 'examples'], default 'uniform'
        Each client counts the same, as its authors have it; or by its examples, in both sums.
    beta : float, default 0.5
        How far the stale updates are trusted, from 0 to 1; less where some clients hardly come.
    eta : float | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | None
        Flower's name of `server_lr`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | None = None,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = False,
        snapshot_every: int | None = None,
        codec: Literal["fp32", "fp16", "int8", "int4", "int8-block", "int4-block", "nf4", "rot4", "rot3", "rot2", "rot1"] | str = "fp32",
        population: int | Mapping[str, int] | None = None,
        prune_after: int | None = None,
        rounding_seed: int | None = None,
        staleness_half_life: float | None = None,
        weighting: Literal["uniform", "examples"] = "uniform",
        beta: float = 0.5,
        eta: float | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | None = ...,
    ) -> None: ...

class ClusterFedVARP(Strategy):
    """FedVARP with one memory a cluster (`clusters`).

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | None, default None
        Rate of the server's step; None: 1 for plain steps, the optimizer's own for adaptive ones.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default False
        Serve a mean of the models so far, in which late ones count most; train on the last.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    codec : Literal['fp32', 'fp16', 'int8', 'int4', 'int8-block', 'int4-block', 'nf4', 'rot4', 'rot3', 'rot2', 'rot1'] | str, default 'fp32'
        Stored as fp32, fp16, int8, int4, int8-block, int4-block, nf4, rot4, rot3, rot2 or rot1.
    population : int | Mapping[str, int] | None, default None
        How many clients there are, or their sizes; None: those seen so far.
    prune_after : int | None, default None
        Forget a client that was not seen for so many rounds; None: never.
    rounding_seed : int | None, default None
        Round what is stored up or down at random, by this seed; None: to the nearest.
    clusters : int | Mapping[str, int], default 10
        The cluster of each client, or a number of clusters; fixed for the run.
    eta : float | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | None
        Flower's name of `server_lr`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | None = None,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = False,
        snapshot_every: int | None = None,
        codec: Literal["fp32", "fp16", "int8", "int4", "int8-block", "int4-block", "nf4", "rot4", "rot3", "rot2", "rot1"] | str = "fp32",
        population: int | Mapping[str, int] | None = None,
        prune_after: int | None = None,
        rounding_seed: int | None = None,
        clusters: int | Mapping[str, int] = 10,
        eta: float | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | None = ...,
    ) -> None: ...

class MIFA(Strategy):
    """MIFA: the mean of all remembered updates.

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | None, default None
        Rate of the server's step; None: 1 for plain steps, the optimizer's own for adaptive ones.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default False
        Serve a mean of the models so far, in which late ones count most; train on the last.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    codec : Literal['fp32', 'fp16', 'int8', 'int4', 'int8-block', 'int4-block', 'nf4', 'rot4', 'rot3', 'rot2', 'rot1'] | str, default 'fp32'
        Stored as fp32, fp16, int8, int4, int8-block, int4-block, nf4, rot4, rot3, rot2 or rot1.
    population : int | Mapping[str, int] | None, default None
        How many clients there are, or their sizes; None: those seen so far.
    prune_after : int | None, default None
        Forget a client that was not seen for so many rounds; None: never.
    rounding_seed : int | None, default None
        Round what is stored up or down at random, by this seed; None: to the nearest.
    staleness_half_life : float | None, default None
        After so many rounds what is remembered of a client counts half; None: always the same.
    warmup : Literal['all', 'zeros', 'seen'], default 'all'
        Everyone in the first round; or the unseen count as zero; or the mean is over the seen.
    eta : float | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | None
        Flower's name of `server_lr`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | None = None,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = False,
        snapshot_every: int | None = None,
        codec: Literal["fp32", "fp16", "int8", "int4", "int8-block", "int4-block", "nf4", "rot4", "rot3", "rot2", "rot1"] | str = "fp32",
        population: int | Mapping[str, int] | None = None,
        prune_after: int | None = None,
        rounding_seed: int | None = None,
        staleness_half_life: float | None = None,
        warmup: Literal["all", "zeros", "seen"] = "all",
        eta: float | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | None = ...,
    ) -> None: ...

class Scaffold(Strategy):
    """SCAFFOLD; its clients train with `fedadavr.flower.ClientHook`.

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | None, default None
        Rate of the server's step; None: 1 for plain steps, the optimizer's own for adaptive ones.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default False
        Serve a mean of the models so far, in which late ones count most; train on the last.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    codec : Literal['fp32', 'fp16', 'int8', 'int4', 'int8-block', 'int4-block', 'nf4', 'rot4', 'rot3', 'rot2', 'rot1'] | str, default 'fp32'
        Stored as fp32, fp16, int8, int4, int8-block, int4-block, nf4, rot4, rot3, rot2 or rot1.
    population : int | Mapping[str, int] | None, default None
        How many clients there are, or their sizes; None: those seen so far.
    prune_after : int | None, default None
        Forget a client that was not seen for so many rounds; None: never.
    rounding_seed : int | None, default None
        Round what is stored up or down at random, by this seed; None: to the nearest.
    client_momentum : float, default 0.0
        Momentum of the clients' SGD, on which a_i depends.
    eta : float | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | None
        Flower's name of `server_lr`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | None = None,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = False,
        snapshot_every: int | None = None,
        codec: Literal["fp32", "fp16", "int8", "int4", "int8-block", "int4-block", "nf4", "rot4", "rot3", "rot2", "rot1"] | str = "fp32",
        population: int | Mapping[str, int] | None = None,
        prune_after: int | None = None,
        rounding_seed: int | None = None,
        client_momentum: float = 0.0,
        eta: float | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | None = ...,
    ) -> None: ...

class FedDyn(Strategy):
    """FedDyn; its clients train with `fedadavr.flower.ClientHook`.

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | None, default None
        Rate of the server's step; None: 1 for plain steps, the optimizer's own for adaptive ones.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default False
        Serve a mean of the models so far, in which late ones count most; train on the last.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    codec : Literal['fp32', 'fp16', 'int8', 'int4', 'int8-block', 'int4-block', 'nf4', 'rot4', 'rot3', 'rot2', 'rot1'] | str, default 'fp32'
        Stored as fp32, fp16, int8, int4, int8-block, int4-block, nf4, rot4, rot3, rot2 or rot1.
    population : int | Mapping[str, int] | None, default None
        How many clients there are, or their sizes; None: those seen so far.
    prune_after : int | None, default None
        Forget a client that was not seen for so many rounds; None: never.
    rounding_seed : int | None, default None
        Round what is stored up or down at random, by this seed; None: to the nearest.
    alpha : float, default 0.01
        Weight of the dynamic regularizer; the authors chose among 0.1, 0.01 and 0.001.
    eta : float | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | None
        Flower's name of `server_lr`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | None = None,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = False,
        snapshot_every: int | None = None,
        codec: Literal["fp32", "fp16", "int8", "int4", "int8-block", "int4-block", "nf4", "rot4", "rot3", "rot2", "rot1"] | str = "fp32",
        population: int | Mapping[str, int] | None = None,
        prune_after: int | None = None,
        rounding_seed: int | None = None,
        alpha: float = 0.01,
        eta: float | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | None = ...,
    ) -> None: ...

class FedCM(Strategy):
    """FedCM; its clients train with `fedadavr.flower.ClientHook`.

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | None, default None
        Rate of the server's step; None: 1 for plain steps, the optimizer's own for adaptive ones.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default False
        Serve a mean of the models so far, in which late ones count most; train on the last.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    client_momentum : float, default 0.0
        Momentum of the clients' SGD, on which the number of effective steps depends.
    alpha : float, default 0.1
        The weight of a client's own gradient against the federation's.
    eta : float | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | None
        Flower's name of `server_lr`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | None = None,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = False,
        snapshot_every: int | None = None,
        client_momentum: float = 0.0,
        alpha: float = 0.1,
        eta: float | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | None = ...,
    ) -> None: ...

class GHBM(Strategy):
    """GHBM; its clients train with `fedadavr.flower.ClientHook`.

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | None, default None
        Rate of the server's step; None: 1 for plain steps, the optimizer's own for adaptive ones.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default False
        Serve a mean of the models so far, in which late ones count most; train on the last.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    client_momentum : float, default 0.0
        Momentum of the clients' SGD, on which the number of effective steps depends.
    tau : int, default 10
        How many rounds back: about one over the share of clients that come to a round.
    beta : float, default 0.9
        Weight of the momentum.
    eta : float | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | None
        Flower's name of `server_lr`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | None = None,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = False,
        snapshot_every: int | None = None,
        client_momentum: float = 0.0,
        tau: int = 10,
        beta: float = 0.9,
        eta: float | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | None = ...,
    ) -> None: ...

class FedNova(Strategy):
    """FedNova; its clients report `num-steps`, which `fedadavr.flower.ClientHook` counts.

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | None, default None
        Rate of the server's step; None: 1 for plain steps, the optimizer's own for adaptive ones.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default False
        Serve a mean of the models so far, in which late ones count most; train on the last.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    client_momentum : float, default 0.0
        Momentum of the clients' SGD, on which a_i depends.
    eta : float | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | None
        Flower's name of `server_lr`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | None = None,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = False,
        snapshot_every: int | None = None,
        client_momentum: float = 0.0,
        eta: float | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | None = ...,
    ) -> None: ...

class FedProx(Strategy):
    """FedProx; its clients get `proximal-mu`, as from Flower's, which `ClientHook` applies.

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | None, default None
        Rate of the server's step; None: 1 for plain steps, the optimizer's own for adaptive ones.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default False
        Serve a mean of the models so far, in which late ones count most; train on the last.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    mu : float, default 0.01
        Weight of the proximal term.
    eta : float | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | None
        Flower's name of `server_lr`.
    proximal_mu : float
        Flower's name of `mu`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | None = None,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = False,
        snapshot_every: int | None = None,
        mu: float = 0.01,
        eta: float | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | None = ...,
        proximal_mu: float = ...,
    ) -> None: ...

class FedAvg(Strategy):
    """FedAvg, with resume and replies checked one by one.

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | None, default None
        Rate of the server's step; None: 1 for plain steps, the optimizer's own for adaptive ones.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default False
        Serve a mean of the models so far, in which late ones count most; train on the last.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    eta : float | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | None
        Flower's name of `server_lr`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | None = None,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = False,
        snapshot_every: int | None = None,
        eta: float | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | None = ...,
    ) -> None: ...

class FedAvgM(Strategy):
    """FedAvgM, as Flower computes it, with the momentum 0.9 unless told (`server_momentum`).

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | None, default 1.0
        Rate of the server's step; a lasting direction is stepped 1/(1 - server_momentum) as far.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default False
        Serve a mean of the models so far, in which late ones count most; train on the last.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    server_momentum : float, default 0.9
        Decay of the momentum; 0 is FedAvg, which is Flower's default.
    eta : float | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | None
        Flower's name of `server_lr`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | None = 1.0,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = False,
        snapshot_every: int | None = None,
        server_momentum: float = 0.9,
        eta: float | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | None = ...,
    ) -> None: ...

class FedExP(Strategy):
    """FedExP: FedAvg that steps further where the clients' updates differ.

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | None, default None
        Rate of the server's step; None: 1 for plain steps, the optimizer's own for adaptive ones.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default False
        Serve a mean of the models so far, in which late ones count most; train on the last.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    eps : float, default 0.001
        Added to |D|^2: less extrapolation where updates are short.
    eta : float | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | None
        Flower's name of `server_lr`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | None = None,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = False,
        snapshot_every: int | None = None,
        eps: float = 0.001,
        eta: float | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | None = ...,
    ) -> None: ...

class FedAU(Strategy):
    """FedAU: clients that come seldom count for more; keeps when they came, and no update.

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | None, default None
        Rate of the server's step; None: 1 for plain steps, the optimizer's own for adaptive ones.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default False
        Serve a mean of the models so far, in which late ones count most; train on the last.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    cutoff : int, default 50
        No interval is longer: a client that was away for so many rounds has ended one.
    population : int | Mapping[str, int] | None, default None
        How many clients there are, or their sizes; None: those seen so far.
    prune_after : int | None, default None
        Forget a client that was not seen for so many rounds; None: never.
    eta : float | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | None
        Flower's name of `server_lr`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | None = None,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = False,
        snapshot_every: int | None = None,
        cutoff: int = 50,
        population: int | Mapping[str, int] | None = None,
        prune_after: int | None = None,
        eta: float | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | None = ...,
    ) -> None: ...

class FedAdagrad(Strategy):
    """FedAdagrad, as Flower computes it.

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | Literal['learned'] | None, default 0.1
        Rate of the server's step; learned: found from round to round.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default False
        Serve a mean of the models so far, in which late ones count most; train on the last.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    server_lr_start : float | None, default None
        The first rate of one that is learned; None: as large as is safe.
    tau : float, default 0.001
        Added to the denominator; Flower's legacy classes had 1e-9.
    eta : float | Literal['learned'] | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | Literal['learned'] | None
        Flower's name of `server_lr`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | Literal["learned"] | None = 0.1,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = False,
        snapshot_every: int | None = None,
        server_lr_start: float | None = None,
        tau: float = 0.001,
        eta: float | Literal["learned"] | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | Literal["learned"] | None = ...,
    ) -> None: ...

class FedAdam(Strategy):
    """FedAdam, as Flower computes it.

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | Literal['learned'] | None, default 0.1
        Rate of the server's step; learned: found from round to round.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default False
        Serve a mean of the models so far, in which late ones count most; train on the last.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    server_lr_start : float | None, default None
        The first rate of one that is learned; None: as large as is safe.
    tau : float, default 0.001
        Added to the denominator; Flower's legacy classes had 1e-9.
    beta1 : float, default 0.9
        Decay of the first moment.
    beta2 : float, default 0.99
        Decay of the second moment.
    eta : float | Literal['learned'] | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | Literal['learned'] | None
        Flower's name of `server_lr`.
    beta_1 : float
        Flower's name of `beta1`.
    beta_2 : float
        Flower's name of `beta2`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | Literal["learned"] | None = 0.1,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = False,
        snapshot_every: int | None = None,
        server_lr_start: float | None = None,
        tau: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.99,
        eta: float | Literal["learned"] | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | Literal["learned"] | None = ...,
        beta_1: float = ...,
        beta_2: float = ...,
    ) -> None: ...

class FedYogi(Strategy):
    """FedYogi, as Flower computes it.

    Settings that are not given are, with a store that holds rounds, what these were made with; else
    their defaults.

    Parameters
    ----------
    fraction_train : float, default 1.0
        Share of the connected clients that train in a round.
    fraction_evaluate : float, default 1.0
        Share of the connected clients that evaluate; 0: nobody does.
    min_train_nodes : int, default 2
        Train with at least so many clients, whatever the share.
    min_evaluate_nodes : int, default 2
        Evaluate with at least so many clients, whatever the share.
    min_available_nodes : int, default 2
        Wait until so many clients are connected.
    weighted_by_key : str, default 'num-examples'
        The metric of a reply that tells its number of examples.
    arrayrecord_key : str, default 'arrays'
        The name of the record in which the model is sent.
    configrecord_key : str, default 'config'
        The name of the record in which the config is sent.
    train_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        Makes one MetricRecord of the training replies' and the name of their weight; None: the
        weighted mean.
    evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord] | None, default None
        The same for the evaluation's replies.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}, default 'auto'
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float, default 3600.0
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int, default 1
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool, default False
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes are
        asked if the algorithm remembers clients, and only then. Who is sampled does not depend on
        Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int, default 10
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int, default 42
        Seed of who is sampled.
    buffers : Sequence[str], default ()
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float, default 120.0
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int, default 3
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    server_lr : float | Literal['learned'] | None, default 0.01
        Rate of the server's step; learned: found from round to round.
    client_lr : float, default 1.0
        Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds.
    clip : float, default 50.0
        Clip to the median length of late an update that is so many times longer; 0: never.
    max_norm : float | None, default None
        Reject an update whose |w - w_i| is larger; None: no bound beside `clip`.
    max_examples : int | None, default None
        Reject a reply that claims more examples; None: than a thousand times the median known.
    max_steps : int | None, default None
        Reject a reply that claims more local steps; None: as with `max_examples`.
    max_share : float | None, default None
        The largest share of a cohort's examples that one client counts with; None: any.
    averaging : bool | None, default False
        Serve a mean of the models so far, in which late ones count most; train on the last.
    snapshot_every : int | None, default None
        Keep the store as it is every so many rounds, to be able to go back; None: never.
    server_lr_start : float | None, default None
        The first rate of one that is learned; None: as large as is safe.
    tau : float, default 0.001
        Added to the denominator; Flower's legacy classes had 1e-9.
    beta1 : float, default 0.9
        Decay of the first moment.
    beta2 : float, default 0.99
        Decay of the second moment.
    eta : float | Literal['learned'] | None
        Flower's name of `server_lr`.
    eta_l : float
        Flower's name of `client_lr`.
    server_learning_rate : float | Literal['learned'] | None
        Flower's name of `server_lr`.
    beta_1 : float
        Flower's name of `beta1`.
    beta_2 : float
        Flower's name of `beta2`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        store: str | None = None,
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        server_lr: float | Literal["learned"] | None = 0.01,
        client_lr: float = 1.0,
        clip: float = 50.0,
        max_norm: float | None = None,
        max_examples: int | None = None,
        max_steps: int | None = None,
        max_share: float | None = None,
        averaging: bool | None = False,
        snapshot_every: int | None = None,
        server_lr_start: float | None = None,
        tau: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.99,
        eta: float | Literal["learned"] | None = ...,
        eta_l: float = ...,
        server_learning_rate: float | Literal["learned"] | None = ...,
        beta_1: float = ...,
        beta_2: float = ...,
    ) -> None: ...
