"""Blocks: partitions that keep what belongs together, and a step that is a loop over blocks."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from scax.layout import Layout
from scax.sharding.blocks import scatter
from tests.agreement.reference import Reference
from tests.cases import LOSSES, groups_of_three
from tests.test_sca import EXACT, setting, vector


def members(blocks, layout, regularizer=scax.L2(0.0)):
    partition = blocks.partition(layout, regularizer, jnp.float32)
    return [np.asarray(i)[np.asarray(m) > 0] for i, m in zip(partition.index, partition.mask, strict=True)]


@pytest.mark.parametrize("by", ["contiguous", "layer", "neuron", "random"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_partition_covers_every_weight_once(by, count):
    _, params, _ = setting()
    layout = Layout.of(params)
    parts = members(scax.Blocks(count, by=by), layout)
    assert len(parts) == count
    assert all(len(p) for p in parts)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(layout.size))


def test_units_stay_together():
    _, params, _ = setting()
    layout = Layout.of(params)
    ends = np.cumsum((0, *layout.sizes))
    for part in members(scax.Blocks(3, by="layer"), layout):
        for a, b in itertools.pairwise(ends):
            assert np.isin(np.arange(a, b), part).mean() in (0, 1)
    ids = np.asarray(scax.neuron_groups(params).ids)
    for part in members(scax.Blocks(4, by="neuron"), layout):
        for i in range(ids.max() + 1):
            assert np.isin(np.flatnonzero(ids == i), part).mean() in (0, 1)
    lasso = scax.L2(0.1) + scax.GroupLasso(0.1, groups_of_three(layout.size))
    for part in members(scax.Blocks(4, by="random"), layout, lasso):
        for i in range(layout.size // 3):
            assert np.isin(np.arange(3 * i, 3 * i + 3), part).mean() in (0, 1)


def test_seeds_deal_differently():
    _, params, _ = setting()
    layout = Layout.of(params)
    a, b = (members(scax.Blocks(2, by="random", seed=s), layout)[0] for s in (0, 1))
    assert not np.array_equal(a, b)


def test_layers_and_groups_are_kept_whole_together():
    _, params, _ = setting()
    layout = Layout.of(params)
    layer = np.repeat(np.arange(len(layout.sizes)), layout.sizes)
    ids = np.asarray(scax.neuron_groups(params).ids).copy()
    ids[ids == ids[-1]] = ids[0]  # a group across the first and the last layer: they move as one
    _, ids = np.unique(ids, return_inverse=True)
    lasso = scax.GroupLasso(0.1, scax.Groups.of(ids))
    for part in members(scax.Blocks(3, by="layer"), layout, lasso):
        for sets in (layer, ids):
            for i in range(sets.max() + 1):
                assert np.isin(np.flatnonzero(sets == i), part).mean() in (0, 1)
    with pytest.raises(ValueError, match="there are only 3 units"):
        scax.Blocks(4, by="layer").partition(layout, lasso, jnp.float32)


@pytest.mark.parametrize("by", ["random", "neuron", "layer"])
def test_redrawn_blocks_cover_every_weight_once_and_cut_no_unit(by):
    _, params, _ = setting()
    layout = Layout.of(params)
    blocks = scax.Blocks(3, by=by, redraw=True)
    first = blocks.partition(layout, scax.L2(0.0), jnp.float32)
    unit = np.asarray(first.unit)
    draw = jax.jit(blocks.at)
    seen = set()
    for n in range(4):
        drawn = draw(first, n)
        assert drawn.index.shape == first.index.shape
        parts = [np.asarray(i)[np.asarray(m) > 0] for i, m in zip(drawn.index, drawn.mask, strict=True)]
        np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(layout.size))
        for part in parts:
            for i in range(unit.max() + 1):
                assert np.isin(np.flatnonzero(unit == i), part).mean() in (0, 1)
        seen.add(str([sorted(p) for p in parts]))
    assert len(seen) > 1


def test_only_active_blocks_move_and_all_do_in_turn():
    problem, params, batch = setting()
    sca = scax.SCA(problem, blocks=scax.Blocks(5, by="random", active=2), **EXACT)
    state = sca.init(params)
    inside = [np.asarray(i)[np.asarray(m) > 0] for i, m in zip(state.blocks.index, state.blocks.mask, strict=True)]
    ever = set()
    for _ in range(12):
        new, _ = sca.step(state, batch)
        changed = np.asarray(new.w != state.w)
        moved = {c for c, part in enumerate(inside) if changed[part].any()}
        assert len(moved) == 2
        ever |= moved
        state = new
    assert ever == set(range(5))


@pytest.mark.parametrize("regularizer", ["l2", "l1"])
def test_own_batches_are_the_rows_of_each_block(regularizer, x64):
    """Block c on its third of the rows is the same block in a step on these rows alone."""
    problem, params, (x, y) = setting(regularizer=regularizer, dtype=np.float64, n=9)
    solver = "auto" if regularizer == "l2" else scax.solvers.Fista(tolerance=1e-13)
    own = scax.SCA(problem, blocks=scax.Blocks(3, own_batch=True), solver=solver, **EXACT)
    one = scax.SCA(problem, blocks=scax.Blocks(3), solver=solver, **EXACT)
    state = own.init(params)
    together = np.asarray(own.step(state, (x, y))[0].w)
    for c, (index, mask) in enumerate(zip(np.asarray(state.blocks.index), np.asarray(state.blocks.mask), strict=True)):
        rows = slice(3 * c, 3 * c + 3)
        alone = np.asarray(one.step(one.init(params), (x[rows], y[rows]))[0].w)
        np.testing.assert_allclose(together[index[mask > 0]], alone[index[mask > 0]], rtol=1e-6, atol=1e-8)
    with pytest.raises(ValueError, match="a batch of 8 rows evenly over 3 moving blocks"):
        own.step(state, (x[:8], y[:8]))


CASES = [(loss, "l2") for loss in LOSSES] + [("squared", "l1"), ("squared", "all"), ("softmax", "group")]


@pytest.mark.parametrize("overlap", [1.0, 2.5])
@pytest.mark.parametrize(("loss", "regularizer"), CASES)
def test_blocks_are_a_loop_over_blocks(loss, regularizer, overlap, x64):
    """Each block's own minimizer with the others at w_n, from first principles, for every loss and penalty."""
    k = max(LOSSES[loss].outputs)
    problem, params, batch = setting(k, loss=loss, regularizer=regularizer, dtype=np.float64)
    smooth = problem.regularizer.is_smooth
    solver = "auto" if smooth else scax.solvers.Fista(tolerance=1e-13)
    sca = scax.SCA(problem, blocks=scax.Blocks(3, by="random", overlap=overlap), solver=solver, **EXACT)
    state = sca.init(params)
    delta = np.asarray(sca.step(state, batch)[0].w - state.w)
    none = np.zeros(delta.size)
    whole = Reference(problem.apply, problem.loss, problem.regularizer, params, *batch, none, none, 1.0, 0.0, 0.1)
    for index, mask in zip(np.asarray(state.blocks.index), np.asarray(state.blocks.mask), strict=True):
        own = np.zeros(delta.size, bool)
        own[index[mask > 0]] = True
        alone = np.where(own, delta, 0)
        # of (1/σ) Φ(z0 + σJδ): that at σδ, but for the proximal term
        slope = whole.slope(overlap * alone) - 2 * whole.mu * (overlap - 1) * alone
        if smooth:
            assert np.linalg.norm(slope[own]) < 1e-8
        else:  # other weights are fixed: no condition on them
            assert whole.parts.violation(np.where(own, whole.w + alone, 0), np.where(own, slope, 0)) < 1e-5


@pytest.mark.parametrize(("loss", "regularizer"), CASES)
def test_blocks_that_count_on_all_others_cannot_overshoot(loss, regularizer, x64):
    """With an overlap of as many as there are the whole surrogate falls, whatever the loss; with 1 it may rise."""
    problem, params, batch = setting(max(LOSSES[loss].outputs), loss=loss, regularizer=regularizer, dtype=np.float64)
    solver = "auto" if problem.regularizer.is_smooth else scax.solvers.Fista(tolerance=1e-13)
    none, rise = np.zeros(Layout.of(params).size), {}
    whole = Reference(problem.apply, problem.loss, problem.regularizer, params, *batch, none, none, 1.0, 0.0, 1e-3)
    for overlap in (1, 8):
        blocks = scax.Blocks(8, by="random", overlap=overlap)
        sca = scax.SCA(problem, blocks=blocks, solver=solver, **{**EXACT, "damping": 1e-3})
        state = sca.init(params)
        delta = np.asarray(sca.step(state, batch)[0].w - state.w)
        assert np.any(delta)
        rise[overlap] = whole.value(delta) - whole.value(none)
    assert rise[8] < 0
    assert loss != "squared" or rise[1] > 0


@pytest.mark.parametrize("by", ["contiguous", "layer", "neuron", "random"])
def test_blocks_can_start_inside_a_program(by):
    problem, params, _ = setting()
    sca = scax.SCA(problem, blocks=scax.Blocks(3, by=by))
    inside, outside = jax.jit(sca.init)(params), sca.init(params)
    np.testing.assert_array_equal(inside.blocks.index, outside.blocks.index)


@pytest.mark.parametrize("regularizer", ["l2", "l1"])
def test_one_block_is_the_whole_problem(regularizer, x64):
    problem, params, batch = setting(regularizer=regularizer, dtype=np.float64)
    results = []
    for blocks in (None, scax.Blocks(1)):
        sca = scax.SCA(problem, blocks=blocks, **EXACT)
        results.append(np.asarray(sca.step(sca.init(params), batch)[0].w))
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-6)


def test_scatter_ignores_padding():
    from scax.sharding.blocks import Partition

    partition = Partition(jnp.asarray([[2, 0], [1, 0]]), jnp.asarray([[1.0, 1.0], [1.0, 0.0]]))
    np.testing.assert_array_equal(scatter(jnp.asarray([[5.0, 6.0], [7.0, 99.0]]), partition, 3), [6, 7, 5])


def test_refusals():
    _, params, _ = setting()
    with pytest.raises(ValueError, match="count must be a whole number ≥ 1, got 0"):
        scax.Blocks(0)
    with pytest.raises(ValueError, match=r"by='layers' is not known: .* Did you mean 'layer'"):
        scax.Blocks(2, by="layers")
    with pytest.raises(ValueError, match="active must be None or a whole number from 1 to count=2, got 3"):
        scax.Blocks(2, active=3)
    with pytest.raises(ValueError, match=r"overlap must be a number ≥ 1, 1 as in the paper, got 0\.5"):
        scax.Blocks(2, overlap=0.5)
    with pytest.raises(ValueError, match="overlap must be a number ≥ 1, 1 as in the paper, got inf"):
        scax.Blocks(2, overlap=np.inf)
    assert scax.Blocks(2, overlap=np.int64(2)) == scax.Blocks(2, overlap=2.0)
    with pytest.raises(ValueError, match="redraw=True has nothing to draw with by='contiguous'"):
        scax.Blocks(2, redraw=True)
    with pytest.raises(ValueError, match="count=9 blocks of whole units by='layer', but there are only 4 units: lower"):
        scax.Blocks(9, by="layer").partition(Layout.of(params), scax.L2(0.0), jnp.float32)


@pytest.mark.parametrize(
    "blocks",
    [
        scax.Blocks(3, by="neuron"),
        scax.Blocks(6, by="random", active=3, redraw=True),
        scax.Blocks(2, by="layer", own_batch=True),
    ],
    ids=["neuron", "redrawn", "own batch"],
)
def test_blocks_train(blocks):
    problem, params, batch = setting()
    sca = scax.SCA(problem, blocks=blocks)
    result = scax.train(sca, params, batch, steps=20, batch_size=8, records=2)
    assert result.history["objective"][-1] < float(problem.objective(params, *batch))
    assert not np.array_equal(vector(result.params), vector(params))
