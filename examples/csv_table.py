"""From a CSV file to predictions: columns are typed, missing values filled, categories encoded.

python examples/csv_table.py

The same from a terminal: scax train houses.csv --target price, then scax predict RUN new.csv
"""

import tempfile
from pathlib import Path

import jax
import numpy as np

import scax

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
area, city = rng.uniform(30, 200, 300), rng.choice(["Oslo", "Rome", "Lima"], 300)
price = 2 * area + np.where(city == "Rome", 80, 0) + rng.normal(0, 10, 300)
lines = [f"{a:.1f},{c},{p:.1f}" for a, c, p in zip(area, city, price, strict=True)]
lines[5] = f",{city[5]},{price[5]:.1f}"  # an area that is missing
(folder / "houses.csv").write_text("area,city,price\n" + "\n".join(lines) + "\n")

table = scax.tables.open_table(folder / "houses.csv")
preprocess = scax.tables.Preprocess.fit(table, "price")
for column, kind, remark in preprocess.schema.show():
    print(f"  {column:8} {kind:12} {remark}")
x, y = preprocess.arrays(table)

net = scax.MLP((preprocess.schema.width, 8, 1))
sca = scax.SCA(scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3)))
result = scax.train(sca, net.init(jax.random.key(0)), (x, y), steps=200, batch_size=20)

# one file holds the network, its weights and the preprocessing; it predicts without JAX
scax.save(folder / "model.safetensors", net, result.params, loss=scax.Squared(), preprocess=preprocess)
model = scax.load(folder / "model.safetensors")
found = np.ravel(model.predict(folder / "houses.csv"))
error = np.sqrt(np.mean((found - price) ** 2))
print(f"typical error {error:.1f}, prices between {price.min():.0f} and {price.max():.0f}")
