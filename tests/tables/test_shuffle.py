"""Every row once per epoch, epochs in different orders, batches that straddle them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scax.tables.shuffle import Shuffle, permute

SIZES = [1, 2, 3, 4, 5, 7, 9, 10, 16, 17, 25, 31, 64, 97, 100, 101, 255, 256, 257, 1000]


def epoch(size, seed, number=0):
    index = jnp.arange(size, dtype=jnp.uint32)
    epochs = jnp.full(size, number, jnp.uint32)
    return np.asarray(jax.jit(permute, static_argnums=3)(index, jnp.uint32(seed), epochs, size))


@pytest.mark.parametrize("size", SIZES)
def test_every_epoch_is_a_permutation(size):
    for seed in range(5):
        np.testing.assert_array_equal(np.sort(epoch(size, seed, number=seed)), np.arange(size))


def test_a_large_prime():
    np.testing.assert_array_equal(np.sort(epoch(100_003, 1)), np.arange(100_003))


def test_epochs_and_seeds_differ():
    assert not np.array_equal(epoch(100, 0, 0), epoch(100, 0, 1))
    assert not np.array_equal(epoch(100, 0, 0), epoch(100, 1, 0))
    assert np.array_equal(epoch(100, 3, 2), epoch(100, 3, 2))


@pytest.mark.parametrize(("size", "batch"), [(7, 3), (10, 10), (3, 8), (1, 4)])
def test_batches_straddle_epochs(size, batch):
    stream = Shuffle.start(jax.random.key(0), size)
    draw = jax.jit(lambda stream: stream.draw(batch))
    drawn = []
    for _ in range(2 * size):
        stream, rows = draw(stream)
        assert rows.shape == (batch,)
        assert rows.dtype == jnp.int32
        drawn.append(np.asarray(rows))
    whole = np.concatenate(drawn)[: 2 * size * batch // size * size].reshape(-1, size)
    np.testing.assert_array_equal(np.sort(whole, axis=1), np.tile(np.arange(size), (len(whole), 1)))
    assert int(stream.epoch) == 2 * size * batch // size
    assert int(stream.place) == 2 * size * batch % size


def test_resumes_anywhere():
    a = Shuffle.start(jax.random.key(5), 23)
    a, first = a.draw(10)
    _, second = jax.tree.map(jnp.array, a).draw(10)
    _, both = Shuffle.start(jax.random.key(5), 23).draw(20)
    np.testing.assert_array_equal(jnp.concatenate([first, second]), both)


def test_looks_uniform():
    """Over many epochs each row meets each place, and each other row in its batch, about equally often."""
    size, epochs, batch = 12, 4000, 3
    index = jnp.tile(jnp.arange(size, dtype=jnp.uint32), epochs)
    number = jnp.repeat(jnp.arange(epochs, dtype=jnp.uint32), size)
    order = np.asarray(permute(index, jnp.uint32(7), number, size)).reshape(epochs, size)
    places = np.stack([np.bincount(order[:, place], minlength=size) for place in range(size)])
    assert ((places - epochs / size) ** 2 / (epochs / size)).sum() / (size - 1) ** 2 < 2  # 1 if uniform
    members = np.eye(size)[order].reshape(epochs * size // batch, batch, size).sum(axis=1)
    together = (members.T @ members)[np.triu_indices(size, 1)] / (epochs * (batch - 1) / (size - 1))
    assert np.all(np.abs(together - 1) < 0.25)


def test_vmap_over_seeds():
    keys = jax.random.split(jax.random.key(0), 3)
    rows = jax.vmap(lambda key: Shuffle.start(key, 11).draw(5)[1])(keys)
    for key, row in zip(keys, rows, strict=True):
        np.testing.assert_array_equal(Shuffle.start(key, 11).draw(5)[1], row)
