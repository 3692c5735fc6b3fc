"""Figure 3: seconds of one iteration on SUSY's network, the paper's Q×Q solve split into C blocks.

(JᵀJ/L + μI) δ = … is solved with one Cholesky per block: O(Q³) for C = 1, O(Q³/C²) in all for C blocks, O(Q³/C³) for
each unit if there are C of them. The same step in sample space needs no blocks at all.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..batch import Batch
from ..losses import Squared
from ..problem import Problem
from ..regularizers import L2
from ..sca import SCA, convex_problem
from ..sharding.blocks import Blocks
from ..surrogate import QuadraticSurrogate
from ..training import engine
from ..training.baseline import baseline
from ..training.feed import Whole
from .bench import Stopwatch, network, plain
from .configs import SPEEDUP_BLOCKS, SUSY

Tick = Callable[[str, int, int], Any]

ROUNDS = 7
PATIENCE = 10.0  # seconds; a step that takes longer is timed fewer times
LOOP = 50
OPTIONS = {"damping": 0.1, "carry": 0.0, "mean_power": None, "acceptance": False, "step_size": 0.5}


def speedup(
    *,
    blocks: Sequence[int] = SPEEDUP_BLOCKS,
    widths: tuple[int, ...] = SUSY[0].widths,
    batch_size: int = SUSY[0].batch_size,
    tick: Tick = lambda *a: None,
) -> dict[str, Any]:
    """Wall and processor seconds per iteration, the least of up to ROUNDS; generated rows: the time does not depend
    on them. A unit is taken to have one core, so what counts for it are processor seconds."""
    watch = Stopwatch()
    net = network(widths, activation="tanh", output="tanh")
    problem = Problem(net.apply, Squared(), L2(SUSY[0].l2))
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.uniform(-0.5, 0.5, (batch_size, widths[0])), jnp.float32)
    batch = Batch(x, jnp.asarray(rng.choice([-0.9, 0.9], batch_size), jnp.float32))
    params = net.init(jax.random.key(0))
    steps = {
        "sample-space": SCA(problem, solver="sample-space", **OPTIONS),
        "structured": SCA(problem, solver="structured", **OPTIONS),
        "adam": baseline(optax.adam(1e-3), problem),
    }
    total, lines, done = 2 * len(blocks) + len(steps), {}, 0
    for name, method in steps.items():
        lines[name] = _looped(method, params, batch)
        tick("seconds per iteration", done := done + 1, total)
    wall, unit = {}, {}
    for count in sorted(blocks, reverse=True):
        sca = SCA(problem, solver="weight-space", blocks=Blocks(count), **OPTIONS)
        state = sca.init(params)
        wall[count] = _timed(lambda state, batch, sca=sca: sca.step(state, batch)[0].w, state, batch)
        tick("seconds per iteration", done := done + 1, total)
        # each unit has the same work: the blocks are equal but for padding; one block is all of them
        one = lambda state, batch, sca=sca: _block(sca, state, batch)
        unit[count] = wall[count] if count == 1 else _timed(one, state, batch)
        tick("seconds per iteration", done := done + 1, total)
    return {
        "network": list(widths),
        "batch_size": batch_size,
        "blocks": sorted(blocks),
        "wall": [plain(wall[c].wall) for c in sorted(blocks)],
        "processor": [plain(wall[c].processor) for c in sorted(blocks)],
        "unit": [plain(unit[c].processor) for c in sorted(blocks)],
        "lines": {name: plain(value.processor) for name, value in lines.items()},
        **watch.read(),
    }


def _block(sca: SCA, state, batch: Batch):
    """What one unit does: J, then the first block's system; the others stay at w_n."""
    surrogate, solver = convex_problem(sca, state, batch)
    solve: Any = solver.solve
    assert not isinstance(surrogate, QuadraticSurrogate)  # which blocks do not have
    return solve(surrogate.take(state.blocks.index[0], state.blocks.mask[0])).delta


class Seconds(NamedTuple):
    wall: float
    processor: float


def _timed(step: Callable, *args) -> Seconds:
    """Seconds of one call, compiled beforehand."""
    run = jax.jit(step).lower(*args).compile()
    seen: list[Seconds] = []
    while len(seen) < ROUNDS and sum(s.wall for s in seen) < PATIENCE:
        began = time.perf_counter(), time.process_time()
        jax.block_until_ready(run(*args))
        seen.append(Seconds(time.perf_counter() - began[0], time.process_time() - began[1]))
    return Seconds(min(s.wall for s in seen), min(s.processor for s in seen))


def _looped(method, params, batch: Batch) -> Seconds:
    """Seconds per step inside one compiled loop: these are too short for a call each."""

    feed = Whole(batch)
    carry = engine.start(method, params, feed, jax.random.key(0))
    whole = _timed(lambda carry: engine.advance(method, carry, feed, np.full(1, LOOP, np.int32), np.int32(LOOP)), carry)
    return Seconds(whole.wall / LOOP, whole.processor / LOOP)
