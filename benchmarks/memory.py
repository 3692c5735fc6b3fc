"""Peak memory of a few SCA steps of a dense network of 10 million weights, batches of 256.

python -m benchmarks.memory [--batch 256] [--steps 3]
"""

import argparse
import json
import resource

import jax
import jax.numpy as jnp
import numpy as np

import scax


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args()
    net = scax.MLP((1000, 2000, 2000, 2000, 1))
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(2 * options.batch, 1000)), jnp.float32)
    y = jnp.asarray(rng.normal(size=2 * options.batch), jnp.float32)
    params = net.init(jax.random.key(0))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    sca = scax.SCA(scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3)))
    result = scax.train(sca, params, (x, y), steps=options.steps, batch_size=options.batch, records=1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    weights = sum(leaf.size for leaf in jax.tree.leaves(params))
    print(
        json.dumps(
            {
                "weights": weights,
                "batch": options.batch,
                "gigabytes_before": round(before, 2),
                "gigabytes_peak": round(peak, 2),
                "objective": float(result.history["objective"][-1]),
                "jacobian_would_take_gigabytes": round(4 * weights * options.batch / 2**30, 2),
            }
        )
    )


if __name__ == "__main__":
    main()
