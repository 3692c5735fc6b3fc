"""Feeds: every row once per epoch, any position reached in one go or step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from scax.batch import Batch
from scax.training.feed import CHUNK, EqualBatches, Rows, Shards, Whole, is_feed, padded, rows_in_memory
from tests.cases import mlp, rows, start

X = rows(0, 23, dtype=np.float32)
Y = np.arange(23, dtype=np.float32)
WEIGHT = np.linspace(1, 2, 23).astype(np.float32)


def draw(feed, steps, key=jax.random.key(3), at_once=4):
    """The batches of some steps, planned `at_once` at a time; compiled, as in the loop over steps."""
    position, batches = feed.start(key), []
    while len(batches) < steps:
        loaded, count = feed.load(position, at_once)
        plan = planned(loaded, position, at_once)
        batches += [batch_of(loaded, plan, i) for i in range(count)]
        position = skipped(loaded, position, count)
    return batches[:steps]


planned = jax.jit(lambda batches, position, count: batches.plan(position, count), static_argnums=2)
batch_of = jax.jit(lambda batches, plan, i: batches.batch(plan, i))
skipped = jax.jit(lambda batches, position, steps: batches.skip(position, steps))


def same(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


def equal_batches(batch_size, size=None):
    return EqualBatches.pad(X, Y, WEIGHT, batch_size, size)


FEEDS = {
    "rows": lambda: Rows(Batch(jnp.asarray(X), jnp.asarray(Y), jnp.asarray(WEIGHT)), 5),
    "some rows": lambda: Rows(Batch(jnp.asarray(X), jnp.asarray(Y)), 5, order=jnp.arange(3, 20)),
    "whole": lambda: Whole(Batch(jnp.asarray(X), jnp.asarray(Y))),
    "equal batches": lambda: equal_batches(5),
    "one equal batch": lambda: equal_batches(32),
}


@pytest.mark.parametrize("name", FEEDS)
def test_how_many_are_planned_at_once_changes_nothing(name):
    feed = FEEDS[name]()
    assert is_feed(feed)
    one_by_one = draw(feed, 12, at_once=1)
    same(draw(feed, 12, at_once=5), one_by_one)
    if name not in ("whole", "one equal batch"):
        assert not np.array_equal(draw(feed, 1, key=jax.random.key(4))[0].y, one_by_one[0].y)


def test_rows_in_shuffled_epochs():
    batches = draw(FEEDS["rows"](), 23)  # five epochs
    targets = np.concatenate([b.y for b in batches]).reshape(5, 23)
    np.testing.assert_array_equal(np.sort(targets), np.tile(Y, (5, 1)))
    assert not np.array_equal(targets[0], targets[1])
    for batch in batches:
        place = np.asarray(batch.y, int)
        np.testing.assert_array_equal(batch.x, X[place])
        np.testing.assert_array_equal(batch.weight, WEIGHT[place])
    some = np.concatenate([b.y for b in draw(FEEDS["some rows"](), 17)]).reshape(5, 17)
    np.testing.assert_array_equal(np.sort(some), np.tile(np.arange(3, 20), (5, 1)))


@pytest.mark.parametrize(("n", "batch_size"), [(23, 5), (20, 5), (33, 32), (7, 3), (4, 9)])
def test_equal_batches(n, batch_size):
    """Every row once per epoch, in batches whose sizes differ by one at most; what fills them up has no weight."""
    feed = EqualBatches.pad(X[:1].repeat(n, 0), np.arange(n, dtype=np.float32), np.ones(n, np.float32), batch_size)
    batches = draw(feed, 2 * feed.epochs(1)[-1])
    assert len(batches) == 2 * -(-n // batch_size)
    sizes = [int(np.sum(b.weight)) for b in batches]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= batch_size
    half = len(batches) // 2
    epochs = [np.concatenate([np.asarray(b.y)[np.asarray(b.weight) > 0] for b in part]) for part in
              (batches[:half], batches[half:])]  # fmt: skip
    for epoch in epochs:
        np.testing.assert_array_equal(np.sort(epoch), np.arange(n))
    assert n < 7 or not np.array_equal(*epochs)
    assert list(feed.epochs(3)) == [half, 2 * half, 3 * half]


def test_a_batch_of_all_padded_rows():
    feed = equal_batches(64)
    assert feed.is_whole
    assert feed.x.shape[0] == padded(23) == 32
    (batch,) = draw(feed, 1)
    assert float(jnp.sum(batch.weight)) == pytest.approx(WEIGHT.sum())
    assert list(feed.epochs(2)) == [1, 2]


def test_tables_up_to_the_next_power_of_two_share_a_program():
    traces = []

    @jax.jit
    def counted(feed, position):
        traces.append(1)
        return feed.plan(position, 4)

    for n in (17, 23, 20):
        feed = EqualBatches.pad(X[:n], Y[:n], WEIGHT[:n], 5)
        counted(feed, feed.start(jax.random.key(0)))
    assert len(traces) == 1


def test_shards_are_the_stream(tmp_path):
    from scax.tables import Preprocess, Stream, convert, open_table

    source = tmp_path / "t.csv"
    rng = np.random.default_rng(0)
    lines = [f"{a:.4f},{b:.4f},{a - b:.4f}" for a, b in rng.normal(size=(500, 2))]
    source.write_text("\n".join(["a,b,y", *lines]) + "\n")
    table = open_table(source)
    preprocess = Preprocess.fit(table, "y")
    shards = convert(table, preprocess, tmp_path / "shards", shard_bytes=2000)
    feed, key = Shards(Stream(shards, seed=1), 7), jax.random.key(0)
    steps = CHUNK + 9
    x, y = Stream(shards, seed=1).chunk(steps, 7)
    batches = draw(feed, steps, at_once=10)
    np.testing.assert_array_equal(np.stack([b.x for b in batches]), x)
    np.testing.assert_array_equal(np.stack([b.y for b in batches]), y)
    # anywhere, from a feed that has drawn nothing yet
    again = Shards(Stream(shards, seed=1), 7)
    position = jnp.asarray(CHUNK + 3, jnp.int32)
    held, count = again.load(position, 100)
    assert count == CHUNK - 3
    np.testing.assert_array_equal(held.batch(held.plan(position, 1), 0).x, x[CHUNK + 3])
    assert again.sample(5).x.shape == (5, 2)
    assert int(feed.start(key)) == 0


def test_unlabeled_rows_have_pairs_of_their_own():
    net = mlp(1)
    graph = scax.knn_graph(X, 3)
    problem = scax.Problem(net.apply, scax.Squared(), manifold=scax.Manifold(0.1, graph))
    params = start(net, 0, np.float32)
    labeled = rows_in_memory(problem, params, (X, Y), 4)
    (batch,) = draw(labeled, 1)
    np.testing.assert_array_equal(batch.pairs.extra, X[np.asarray(graph.neighbors)[np.asarray(batch.y, int)].ravel()])
    partly = rows_in_memory(problem, params, (X[:6], Y[:6]), 4, X[6:])
    (batch,) = draw(partly, 1)
    assert batch.pairs.extra.shape[0] == 4 + 4 * 3  # anchors of their own, and their neighbors
    everything = rows_in_memory(problem, params, (X[:6], Y[:6]), None, X[6:])
    whole = everything.batch(None, 0)
    z = lambda rows: net.apply(params, rows)
    np.testing.assert_allclose(
        problem.manifold.value(jnp.concatenate([z(X[:6]), z(whole.pairs.extra)]), whole.pairs),
        problem.manifold.value(z(X), graph.whole()),
        rtol=1e-5,
    )


class NotRegistered:
    """A feed with all parts that is no pytree."""

    start = staticmethod(lambda key: jnp.zeros((), jnp.int32))
    plan = staticmethod(lambda position, count: None)
    batch = staticmethod(lambda plan, i: Batch(jnp.asarray(X), jnp.asarray(Y)))
    skip = staticmethod(lambda position, steps: position + steps)
    sample = staticmethod(lambda count: Batch(jnp.asarray(X), jnp.asarray(Y)))

    def load(self, position, steps):
        return self, steps


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "feed Changed: its batches enter a compiled loop and must be a pytree: decorate Changed with"),
        ({"start": None}, r"feed Changed lacks 'start': a feed has start\(key\), load"),
        ({"sample": None}, "feed Changed lacks 'sample': a feed has"),
        (
            {"skip": None},
            r"feed Changed: load must give \(batches, count\), and Changed lacks 'skip': batches have plan",
        ),
    ],
)
def test_a_feed_that_cannot_be_used(change, message):
    net = mlp(1)
    method = scax.SCA(scax.Problem(net.apply, scax.Squared()))
    feed = type("Changed", (NotRegistered,), change)()
    with pytest.raises(TypeError, match=message):
        scax.train(method, start(net, 0, np.float32), feed, steps=1)
