# SPDX-License-Identifier: MIT
"""A language model whose layers are shared out among the ranks, with MLX.

    tbmpirun -n 4 python examples/tensor_parallel.py --tokens 32

A small transformer with random weights goes on with a prompt, token by token. Each
rank has some of the attention heads and some of the neurons of every layer: it holds
their rows of the first matrices and their columns of the last one, so that its part
of a layer's result needs nothing from other ranks, and the parts add up to the whole
(all_sum, twice a layer). Everything between the layers is done by all ranks alike.

Rank 0 then runs the whole model by itself: the tokens have to be the same.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

from shared import Tell, command_line, parsed, positive, progress, ranks, share, verdict

from tbmpi import COMM_SELF, COMM_WORLD, MPI

try:
    import mlx.core as mx

    from tbmpi import mlx as tb
except ModuleNotFoundError as error:
    sys.exit(f"tensor_parallel: {error}")

VOCABULARY, HEADS, HEAD = 512, 12, 16
WIDTH, NEURONS = HEADS * HEAD, 4 * HEADS * HEAD
PROMPT = [11, 7, 402, 33, 256]


def random(key: int, *shape: int) -> mx.array:
    """A matrix that is the same on every rank, as if it was read from a file."""
    return mx.random.normal(shape, key=mx.random.key(key)) * shape[-1] ** -0.5


def norm(x: mx.array) -> mx.array:
    """Rows scaled to a mean square of 1."""
    return mx.fast.rms_norm(x, None, 1e-5)


@dataclass
class Layer:
    """This rank's part of a layer: its heads, its neurons, what it remembers."""

    query: mx.array
    key: mx.array
    value: mx.array
    out: mx.array
    up: mx.array
    down: mx.array
    keys: mx.array
    values: mx.array

    @classmethod
    def of(cls, number: int, comm: MPI.Intracomm) -> Layer:
        """The part of layer `number` that a rank of `comm` has."""
        first, last = share(HEADS, comm.size, comm.rank)
        heads = slice(first * HEAD, last * HEAD)
        neurons = slice(*share(NEURONS, comm.size, comm.rank))
        seed = 10 * number
        q, k, v, o = (random(seed + i, WIDTH, WIDTH) for i in range(4))
        up, down = random(seed + 4, NEURONS, WIDTH), random(seed + 5, WIDTH, NEURONS)
        nothing = mx.zeros((1, last - first, 0, HEAD))
        return cls(
            q[heads],
            k[heads],
            v[heads],
            o[:, heads],
            up[neurons],
            down[:, neurons],
            nothing,
            nothing,
        )

    def attention(self, x: mx.array) -> mx.array:
        """What this rank's heads add to the new tokens."""
        count = x.shape[0]

        def heads(matrix: mx.array) -> mx.array:
            return (x @ matrix.T).reshape(1, count, -1, HEAD).swapaxes(1, 2)

        q, k = (
            mx.fast.rope(
                heads(matrix),
                HEAD,
                traditional=False,
                base=10_000.0,
                scale=1.0,
                offset=self.keys.shape[2],
            )
            for matrix in (self.query, self.key)
        )
        self.keys = mx.concatenate([self.keys, k], axis=2)
        self.values = mx.concatenate([self.values, heads(self.value)], axis=2)
        mask = "causal" if count > 1 else None
        seen = mx.fast.scaled_dot_product_attention(
            q, self.keys, self.values, scale=HEAD**-0.5, mask=mask
        )
        return seen.swapaxes(1, 2).reshape(count, -1) @ self.out.T

    def neurons(self, x: mx.array) -> mx.array:
        """What this rank's neurons add to the new tokens."""
        return mx.maximum(x @ self.up.T, 0) @ self.down.T


class Model:
    """A transformer, shared out among the ranks of a communicator."""

    def __init__(self, comm: MPI.Intracomm, layers: int) -> None:
        self.comm = comm
        self.words, self.scores = (random(key, VOCABULARY, WIDTH) for key in (1, 2))
        self.layers = [Layer.of(number, comm) for number in range(1, layers + 1)]

    def next(self, tokens: list[int]) -> tuple[int, float]:
        """The token that follows, and how far it was ahead of the second best."""
        x = self.words[mx.array(tokens)] * WIDTH**0.5
        for layer in self.layers:
            x = x + tb.all_sum(layer.attention(norm(x)), self.comm)
            x = x + tb.all_sum(layer.neurons(norm(x)), self.comm)
        scores = norm(x[-1]) @ self.scores.T
        best = mx.argmax(scores).item()
        second, first = mx.topk(scores, 2).tolist()
        return best, abs(first - second)


def generated(model: Model, count: int, tell: Tell) -> tuple[list[int], float]:
    """The tokens after the prompt, and the narrowest lead that one of them had."""
    given, tokens, lead = PROMPT, [], float("inf")
    while len(tokens) < count:
        token, ahead = model.next(given)
        given = [token]
        tokens.append(token)
        lead = min(lead, ahead)
        tell(len(tokens))
    return tokens, lead


def complaint(args: argparse.Namespace) -> str:
    """What is wrong with the options."""
    if COMM_WORLD.size > HEADS:
        return f"{ranks()} are too many for {HEADS} heads"
    return ""


def main() -> int:
    """The program; 1 if the tokens are not those of one rank."""
    parser = command_line(__doc__)
    add = parser.add_argument
    add("--layers", type=positive, default=4, help="of the model (4)")
    add("--tokens", type=positive, default=24, help="to generate (24)")
    args = parsed(parser, complaint)
    model = Model(COMM_WORLD, args.layers)
    began = time.perf_counter()
    with progress(ranks(), args.tokens) as tell:
        tokens, lead = generated(model, args.tokens, tell)
    seconds = time.perf_counter() - began
    if COMM_WORLD.rank != 0:
        return 0
    with progress("one rank", args.tokens) as tell:
        alone, _ = generated(Model(COMM_SELF, args.layers), args.tokens, tell)
    print("tokens:", *tokens)
    what = f"tensor_parallel: {args.layers} layers, {ranks()}, "
    what += f"{args.tokens / seconds:.1f} tokens/s, narrowest lead {lead:.1e}"
    return verdict(tokens == alone, what, "tokens equal to one rank's")


if __name__ == "__main__":
    sys.exit(main())
