"""Every row once per epoch, in an order drawn afresh, without ever storing the order."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, UInt32

from .._struct import static, struct


@struct
class Shuffle:
    """The position in an endless stream of shuffled epochs over `size` rows.

    The order of an epoch is a permutation π of 0 … N−1 evaluated one index at a time: write i = (l, r) in a grid
    A×B ≥ N, stir with four rounds l ← l + hash(r) mod A, r ← r + hash(l) mod B (each a bijection of the grid), and
    stir again whatever falls outside 0 … N−1. A draw costs a few integer operations per row, needs no table, and
    depends only on (seed, epoch, place): a run can be resumed anywhere, and `vmap` over seeds is free.
    A batch may straddle two epochs, so there is no short last batch.
    """

    seed: UInt32[Array, ""]
    epoch: UInt32[Array, ""]
    place: UInt32[Array, ""]
    size: int = static()

    @staticmethod
    def start(key: Array, size: int) -> "Shuffle":
        """From a JAX random key."""
        return _start(key, size)

    def draw(self, count: int) -> tuple["Shuffle", Int[Array, "count"]]:
        """The next `count` rows, and the stream after them."""
        n = jnp.uint32(self.size)
        place = self.place + jnp.arange(count, dtype=jnp.uint32)
        rows = permute(place % n, self.seed, self.epoch + place // n, self.size)
        return self.skip(1, count), rows.astype(jnp.int32)

    def skip(self, draws: Any, count: int) -> "Shuffle":
        """The stream after so many draws of `count` rows; together they have fewer than 2³² − size rows."""
        n = jnp.uint32(self.size)
        end = self.place + jnp.asarray(draws).astype(jnp.uint32) * jnp.uint32(count)
        return Shuffle(self.seed, self.epoch + end // n, end % n, self.size)


@jax.jit(static_argnames="size")
def _start(key: Array, size: int) -> Shuffle:
    zero = jnp.zeros((), jnp.uint32)
    return Shuffle(jax.random.bits(key, (), jnp.uint32), zero, zero, size)


def sides(size: int) -> tuple[int, int]:
    """(A, B) of the grid in which `size` rows are stirred."""
    a = max(1, math.isqrt(size - 1) + 1)
    return a, -(-size // a)


def permute(
    index: UInt32[Array, "m"], seed: Any, epoch: UInt32[Array, "m"], size: Any, grid: Any = None
) -> UInt32[Array, "m"]:
    """π_{seed, epoch}(index) on 0 … size−1; a size that is traced comes with its grid, `sides(size)`."""
    a, b = sides(size) if grid is None else grid
    left, right = jnp.asarray(a, jnp.uint32), jnp.asarray(b, jnp.uint32)
    salt = _hash(epoch ^ _hash(seed))

    def stir(i):
        l, r = i // right, i % right
        for turn in range(0, 4, 2):
            l = (l + _hash(r + salt + jnp.uint32(turn * 0x9E3779B9 & 0xFFFFFFFF))) % left
            r = (r + _hash(l + salt + jnp.uint32((turn + 1) * 0x9E3779B9 & 0xFFFFFFFF))) % right
        return l * right + r

    inside = jnp.asarray(size, jnp.uint32)
    first = stir(index)
    if grid is None and a * b == size:
        return first
    # at most a of the a·b cells lie outside, so nearly always nothing is left to do here
    return jax.lax.while_loop(lambda i: jnp.any(i >= inside), lambda i: jnp.where(i >= inside, stir(i), i), first)


def _hash(i):
    """A 32-bit finalizer: every bit of the input reaches every bit of the output."""
    i = (i ^ (i >> 16)) * jnp.uint32(0x21F0AAAD)
    i = (i ^ (i >> 15)) * jnp.uint32(0x735A2D97)
    return i ^ (i >> 15)
