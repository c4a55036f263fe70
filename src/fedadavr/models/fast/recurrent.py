"""A GRU over an embedding of few letters, to its last state.

The input side is a table: for each letter, W_i times its embedding, and the biases. Forward and
backward, a time step is one product with the state's weights and one loop over the gates. The
gradient of the state's weights is a product over several time steps at once, and that of the input
side is summed by letter.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from fedadavr.kernels import call
from fedadavr.models.fast import recurrent_kernels as kernels
from fedadavr.models.fast.products import OWN, Packed, aside
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
        """Products and loops."""
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
        self._seen = self._states.numpy(), self._gates.numpy(), new.numpy()
        self._last = self._states[self._length % len(self._states)]
        self._own, self._aside = OWN, aside()
        if OWN:
            self._across = Packed(width, 3 * width)
        if b.training:
            self._g_table = torch.empty(len(b.weights[0]), 3 * width)
            self._g_bias, self._g = torch.empty(width), torch.empty(b.n, width)
            self._sums = self._g_table.numpy(), self._g_bias.numpy()
            if OWN:
                self._back = Packed(3 * width, width)
                self._several = Packed(AT_ONCE * b.n, width)

    def forward(self) -> None:
        letters, given, state, bias, state_bias = self._b.weights
        x, gates = self._b.inputs[0].data, 2 * self._width
        if x.numel() and (int(x.min()) < 0 or int(x.max()) >= len(letters)):
            raise IndexError(f"a letter is not among the {len(letters)} there are")
        bias = bias.clone()
        bias[:gates] += state_bias[:gates]
        table = torch.addmm(bias, letters, given.t()).numpy()
        self._letters, own = x.t().contiguous().numpy(), state_bias[gates:].numpy()
        self._states[0].zero_()
        if self._own:
            self._across.take(state.t())
            call(
                kernels.gru, self._letters, table, own, *self._seen, self._across.panels,
                self._aside,
            )  # fmt: skip
        else:
            self._forward(table, own, state.t().contiguous())
        self._b.out.data.copy_(self._last)

    def _forward(self, table: np.ndarray, bias: np.ndarray, across: Tensor) -> None:
        """As `kernels.gru`, by the library's products."""
        states, gates, new = self._seen
        for t, letters in enumerate(self._letters):
            before, after, k = t % len(states), (t + 1) % len(states), t % len(gates)
            torch.mm(self._states[before], across, out=self._gates[k])
            call(
                kernels.gru_step, letters, table, bias, states[before], gates[k], new[k],
                states[after],
            )  # fmt: skip

    def backward(self) -> None:
        b, width = self._b, self._width
        letters, given, state, _, _ = b.weights
        self._g_table.zero_()
        self._g_bias.zero_()
        self._g.copy_(b.out.gradient)
        if self._own:
            self._back.take(state)
            call(
                kernels.gru_back, self._letters, self._g.numpy(), *self._seen, self._back.panels,
                AT_ONCE, self._several.panels, np.float32(b.decay.value),
                b.gradients[2].numpy(), *self._sums, self._aside,
            )  # fmt: skip
        else:
            self._backward(state, b.gradients[2])
        g_letters, g_given, _, g_bias, g_state_bias = b.gradients
        g_letters.addmm_(self._g_table, given, beta=b.decay.value)
        g_given.addmm_(self._g_table.t(), letters, beta=b.decay.value)
        sums = self._g_table.sum(0)
        keep(g_bias, sums, b.decay)
        sums[2 * width :] = self._g_bias
        keep(g_state_bias, sums, b.decay)

    def _backward(self, state: Tensor, g_state: Tensor) -> None:
        """As `kernels.gru_back`, by the library's products."""
        beta, g = self._b.decay.value, self._g
        states, gates, new = self._seen
        for t in reversed(range(self._length)):
            call(
                kernels.gru_step_back, self._letters[t], g.numpy(), states[t], gates[t], new[t],
                *self._sums,
            )  # fmt: skip
            if t:
                g.addmm_(self._gates[t], state)
            if t % AT_ONCE == 0:
                run = slice(t, min(t + AT_ONCE, self._length))
                rows, seen = self._gates[run].flatten(0, 1), self._states[:-1][run].flatten(0, 1)
                g_state.addmm_(rows.t(), seen, beta=beta)
                beta = 1.0
