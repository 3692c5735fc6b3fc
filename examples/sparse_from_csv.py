"""From a CSV to a network a fifth of the size that names the inputs it uses.

python examples/sparse_from_csv.py TABLE.csv TARGET

Without arguments it makes a table of twelve columns, of which three decide the target.
"""

import sys
import tempfile
from pathlib import Path

import jax
import numpy as np

import scax


def made_up(folder: Path, rows: int = 400) -> tuple[Path, str]:
    """A table with more columns than matter."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 12))
    y = np.sin(x[:, 1]) + x[:, 4] * 0.8 - np.tanh(x[:, 9]) + 0.1 * rng.normal(size=rows)
    names = [f"c{i}" for i in range(12)]
    np.savetxt(folder / "t.csv", np.column_stack([x, y]), delimiter=",", header=",".join([*names, "y"]), comments="")
    return folder / "t.csv", "y"


def main(table: Path, target: str, steps: int = 100) -> scax.Compacted:
    """Read, train along a path of strengths, take the one suggested, leave out what is zero."""
    source = scax.tables.open_table(str(table))
    split = scax.tables.Split(0.25, 0)
    preprocess = scax.tables.Preprocess.fit(source, target, split=split)
    x, y, x_held, y_held = preprocess.arrays(source, split)

    net = scax.MLP((x.shape[1], 16, 8, 1))
    params = net.init(jax.random.key(0))
    problem = scax.Problem(net.apply, scax.Squared(), scax.GroupLasso(1.0, scax.neuron_groups(params)))
    rows = {"data": (x, y), "validation": (x_held, y_held)}
    show = lambda r: print(f"strength {r['strength']:.4f}: held-out loss {r['loss']:.4f}, {r['weights']} weights")
    path = scax.path(
        problem, np.geomspace(3e-3, 3e-2, 3), params=params, **rows, steps=steps, batch_size=50, on_record=show
    )
    small = scax.compact(net, path.solution)
    print(f"suggested strength {path.strength:.4f}")
    print(small)
    sizes = np.linalg.norm(small.params[0]["weight"], axis=1)  # one row of weights per input that is left
    used = [f"{preprocess.schema.features[small.inputs[i]]} {sizes[i]:.2g}" for i in np.argsort(-sizes)]
    print("inputs used, and the size of their weights:", ", ".join(used))
    print(f"largest difference of outputs: {np.abs(small.apply(x_held) - net.apply(path.solution, x_held)).max():.1e}")
    return small


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(Path(sys.argv[1]), sys.argv[2])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(*made_up(Path(folder)))
