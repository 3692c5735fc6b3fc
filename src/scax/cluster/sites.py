"""The rows of several sites in one process, for a simulation of rounds; a feed of the engine.

Rows lie in pieces of equal size, each of one site, filled up with rows of weight 0: sites of any size share a program.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from .. import checks
from .._struct import static, struct
from ..batch import Batch
from ..problem import Problem

#: Rows of a piece, at most.
PIECE = 256


@struct
class Round:
    """The sites' rows, and which sites answer."""

    pieces: Batch  # leading axis: pieces
    owner: Int[Array, "pieces"]
    answered: Bool[Array, "sites"]

    def gather(self, compute: Callable[[Batch], Any], like: Any) -> Any:
        """Σ of `compute` over the pieces of each site, shaped as `like`: one entry per site."""

        def add(sums, piece):
            rows, owner = piece
            return jax.tree.map(lambda total, own: total.at[owner].add(own), sums, compute(rows)), None

        return jax.lax.scan(add, jax.tree.map(jnp.zeros_like, like), (self.pieces, self.owner))[0]


def weight_dtype(x: Any) -> Any:
    """Of the weights of rows x, which may be whole numbers or of half precision: sums of them count rows."""
    return jnp.result_type(x.dtype, np.float32)


@struct
class Sites:
    """All sites' rows as a feed of rounds; in every round `absent` of the sites, drawn anew, do not answer."""

    pieces: Batch
    owner: Int[Array, "pieces"]
    count: int = static()
    absent: int = static(default=0)

    @staticmethod
    def of(batches: Sequence[Batch], absent: int = 0) -> "Sites":
        """From each site's rows."""
        size = min(PIECE, max(batch.size for batch in batches))
        parts, owner = [], []
        for number, batch in enumerate(batches):
            weight = np.ones(batch.size) if batch.weight is None else np.asarray(batch.weight)
            x, y = np.asarray(batch.x), np.asarray(batch.y)
            fill = -batch.size % size
            again = np.arange(batch.size + fill) % batch.size
            cut = lambda a, size=size: a.reshape(-1, size, *a.shape[1:])
            weight = np.pad(weight, (0, fill)).astype(weight_dtype(x))
            parts.append((cut(x[again]), cut(y[again]), cut(weight)))
            owner += [number] * len(parts[-1][0])
        x, y, weight = (jnp.asarray(np.concatenate(part)) for part in zip(*parts, strict=True))
        return Sites(Batch(x, y, weight), jnp.asarray(owner), len(batches), absent)

    def start(self, key: Array) -> tuple[Array, Array]:
        return key, jnp.zeros((), jnp.int32)

    def load(self, position: Any, steps: int) -> tuple["Sites", int]:
        return self, steps

    def plan(self, position: tuple, count: int) -> Bool[Array, "count sites"]:
        return draw_answers(position, count, self.count, self.absent)

    def batch(self, plan: Bool[Array, "count sites"], i: Any) -> Round:
        return Round(self.pieces, self.owner, plan[i])

    def skip(self, position: tuple, steps: Any) -> tuple:
        return position[0], position[1] + steps

    def sample(self, count: int) -> Batch:
        """All rows: those of weight 0 do not count."""
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), self.pieces)


def draw_answers(position: tuple, count: int, sites: int, absent: int) -> Bool[Array, "count sites"]:
    """Which sites answer in each of the next rounds."""
    key, done = position
    order = lambda i: jax.random.permutation(jax.random.fold_in(key, done + i), sites)
    return jax.vmap(order)(jnp.arange(count)) >= absent


def admit(problem: Problem, params: PyTree, sites: Any, weights: Any = None) -> tuple[dict[str, Batch], dict[str, str]]:
    """(rows of the sites that can take part, reasons of the others), by name.

    A site is refused where its rows do not fit the network: other columns, dtypes or targets, values that are not
    finite, no rows; and where its columns are not those that most rows have.
    """
    if not isinstance(sites, Mapping | list | tuple):
        raise TypeError(f"sites must be a list of (x, y), or a dict of them by name, got {type(sites).__name__}.")
    if not sites:
        raise ValueError("sites is empty: give the rows of at least one.")
    if not isinstance(sites, Mapping) and any(map(_is_named, sites)):
        raise TypeError("a list of sites has no names: give sites={name: (x, y), …}, or a list of (x, y).")
    named = dict(sites) if isinstance(sites, Mapping) else {str(i): site for i, site in enumerate(sites)}
    if weights is not None:
        if np.shape(weights) != (len(named),):
            raise ValueError(
                f"weights has shape {np.shape(weights)}, and there are {len(named)} sites: give one number for each."
            )
        checks.positive("weights", np.asarray(weights))
    rows: dict[str, Batch] = {}
    reasons: dict[str, str] = {}
    for number, (name, site) in enumerate(named.items()):
        try:
            batch = problem.ready(params, site)
        except (TypeError, ValueError) as error:
            reasons[name] = str(error)
            continue
        if weights is not None:
            own = np.ones(batch.size) if batch.weight is None else np.asarray(batch.weight)
            weight = (own * (weights[number] / own.sum())).astype(weight_dtype(batch.x))
            batch = Batch(batch.x, batch.y, weight)
        rows[name] = batch
    kinds: dict[str, int] = {}
    for batch in rows.values():
        kinds[_kind(batch)] = kinds.get(_kind(batch), 0) + batch.size
    most = max(kinds, key=kinds.__getitem__) if kinds else None
    for name in [name for name, batch in rows.items() if _kind(batch) != most]:
        reasons[name] = f"its rows are {_kind(rows.pop(name))}; most rows are {most}: give all sites the same."
    return rows, reasons


def _kind(batch: Batch) -> str:
    """What the rows of all sites must have in common, in words."""
    part = lambda a: f"{a.dtype.name}[{', '.join(['rows', *map(str, a.shape[1:])])}]"
    return f"x {part(batch.x)}, y {part(batch.y)}"


def _is_named(site: Any) -> bool:
    """Whether it is (name, rows)."""
    return isinstance(site, tuple | list) and bool(site) and isinstance(site[0], str)
