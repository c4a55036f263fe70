"""A GRU over an embedding of few letters, to its last state.

The input side is a table: for each letter, W_i times its embedding, and the biases. Forward and
backward, a time step is one product with the state's weights and one loop over the gates. The
gradient of the state's weights is a product over several time steps at once, and that of the input
side is summed by letter.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedadavr.kernels import call
from fedadavr.models.fast import kernels
from fedadavr.models.fast.products import Right
from fedadavr.models.fast.program import Bound, BoundLayer, Layer, Piece, keep

AT_ONCE = 8
"""Time steps whose gates are in the cache when the weights' gradient takes them."""
LETTERS = 4096
"""Up to so many letters, a table of them is cheap."""


def fits(embedding: nn.Module, gru: nn.Module) -> bool:
    """Whether these two layers are of the kind that is computed here."""
    return (
        type(embedding) is nn.Embedding
        and embedding.num_embeddings <= LETTERS
        and embedding.padding_idx is None
        and embedding.max_norm is None
        and not embedding.scale_grad_by_freq
        and not embedding.sparse
        and type(gru) is nn.GRU
        and gru.num_layers == 1
        and gru.batch_first
        and gru.bias
        and not gru.bidirectional
    )


class LettersGRU(Layer):
    """An embedding and a GRU of one layer: letters, (batch, length), to the last state.

    Its parameters are the embedding, W_i, W_h, and their two biases.
    """

    def __init__(self, pieces: list[Piece]) -> None:
        self.pieces = pieces

    def step(self, b: Bound) -> BoundLayer:
        """TapProducts and loops."""
        return _Run(b)


class _Run(BoundLayer):
    def __init__(self, b: Bound) -> None:
        self._b = b
        (self._length,) = b.inputs[0].kind.shape
        self._width = width = b.out.kind.shape[0]
        steps = self._length if b.training else 1
        self._gates = torch.empty(steps, b.n, 3 * width)
        self._states = torch.empty(steps + 1, b.n, width)
        new = torch.empty(steps, b.n, width)
        bias = b.weights[4]
        self._across, self._bias = Right(width, 3 * width), bias[2 * width :].numpy()
        self._times = []
        for t in range(self._length):
            k, before, after = (t, t, t + 1) if b.training else (0, t % 2, (t + 1) % 2)
            tensors = self._states[before], self._gates[k], self._states[after], new[k]
            h, gates, next_h, fresh = (x.numpy() for x in tensors)
            self._times.append((tensors[0], tensors[1], (h, gates, fresh), next_h))
        self._last = self._states[self._length if b.training else self._length % 2]
        if b.training:
            self._g_table = torch.empty(len(b.weights[0]), 3 * width)
            self._g_bias, self._g = torch.empty(width), torch.empty(b.n, width)
            self._sums = self._g_table.numpy(), self._g_bias.numpy()
            self._state = Right(3 * width, width)
            self._runs: list[tuple[Tensor, Tensor, Right]] = []
            rights: dict[int, Right] = {}
            for lo in range(0, self._length, AT_ONCE):
                run = slice(lo, min(lo + AT_ONCE, self._length))
                rows, seen = self._gates[run].flatten(0, 1), self._states[:-1][run].flatten(0, 1)
                right = rights.setdefault(len(rows), Right(*seen.shape))
                self._runs.append((rows.t(), seen, right))

    def forward(self) -> None:
        letters, given, _, bias, state_bias = self._b.weights
        x, gates = self._b.inputs[0].data, 2 * self._width
        if x.numel() and (int(x.min()) < 0 or int(x.max()) >= len(letters)):
            raise IndexError(f"a letter is not among the {len(letters)} there are")
        bias = bias.clone()
        bias[:gates] += state_bias[:gates]
        table = torch.addmm(bias, letters, given.t()).numpy()
        self._letters = x.t().contiguous().numpy()
        self._states[0].zero_()
        across, own, step = self._across, self._bias, kernels.gru_step
        across.take(self._b.weights[2].t().contiguous())
        for at, (h, gate, (seen, gates_seen, new), after) in zip(
            self._letters, self._times, strict=True
        ):
            across.multiply(h, gate)
            call(step, at, table, own, seen, gates_seen, new, after)
        self._b.out.data.copy_(self._last)

    def backward(self) -> None:
        b, width = self._b, self._width
        letters, given, state, _, _ = b.weights
        self._state.take(state)
        self._g_table.zero_()
        self._g_bias.zero_()
        g, g_state, beta = self._g, b.gradients[2], b.decay.value
        g.copy_(b.out.gradient)
        seen, step = g.numpy(), kernels.gru_step_back
        for t in reversed(range(self._length)):
            _, gate, (h, gates_seen, new), _ = self._times[t]
            call(step, self._letters[t], seen, h, gates_seen, new, *self._sums)
            if t:
                self._state.multiply(gate, g, 1.0)
            if t % AT_ONCE == 0:
                gates, states, right = self._runs[t // AT_ONCE]
                right.take(states)
                right.multiply(gates, g_state, beta)
                beta = 1.0
        g_letters, g_given, _, g_bias, g_state_bias = b.gradients
        g_letters.addmm_(self._g_table, given, beta=b.decay.value)
        g_given.addmm_(self._g_table.t(), letters, beta=b.decay.value)
        sums = self._g_table.sum(0)
        keep(g_bias, sums, b.decay)
        sums[2 * width :] = self._g_bias
        keep(g_state_bias, sums, b.decay)
