"""One process, many devices: which part of a step each of them does."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from .. import checks
from .._compat import flat_mesh, shard_map
from ..batch import Batch, TermBatch
from ..linearize import Linearization, linearize, linearize_along
from ..linearize.network import NetworkFunction
from ..solvers import Auto, Direct, Solution, Solver
from ..solvers.plan import StepPlan
from .shares import gather_rows, own_rows, share, share_along


@dataclasses.dataclass(frozen=True)
class Parallel:
    """Spread every step over the devices of a mesh; state and batch are the same on all of them.

    scheme  "exact"   each device passes its own rows through the network and finds its rows of JJᵀ and its columns of
                      δ: the step is the one-device step, to rounding. Messages: layer inputs and sensitivities, JJᵀ,
                      δ, and the outputs at the new point. Smooth regularizers (L2).
            "blocks"  each device solves its share of the blocks of `SCA(blocks=Blocks(...))`; one all-gather collects
                      δ. Any loss and penalty; with own_batch=True each device differentiates its own rows alone.
            "data"    each device sees a share of the batch's rows; XLA places the collectives. Any loss and penalty.
    mesh    a Mesh, a number of devices, or None: all devices. However many axes it has, every device gets its share of
            the rows and of the weights: nothing would be gained by devices that share only one of the two.

    >>> sca = scax.SCA(problem, parallel=scax.Parallel(scheme="data"))  # all devices
    """

    mesh: Any = None
    scheme: str = "exact"

    def __post_init__(self):
        checks.choice("scheme", self.scheme, ["exact", "blocks", "data"])
        mesh = self.mesh
        if mesh is None or isinstance(mesh, int):
            devices = jax.devices()
            if mesh is not None and not 1 <= mesh <= len(devices):
                raise ValueError(
                    f"mesh={mesh} devices, but there are {len(devices)}. On a CPU, XLA_FLAGS="
                    "--xla_force_host_platform_device_count=N pretends to have N."
                )
            mesh = Mesh(np.asarray(devices[:mesh]), ("units",))
        if not isinstance(mesh, Mesh):
            raise TypeError(f"mesh must be a Mesh, a number of devices or None, got {mesh!r}.")
        object.__setattr__(self, "mesh", flat_mesh(mesh))

    @property
    def axis(self) -> str:
        return self.mesh.axis_names[0]

    @property
    def units(self) -> int:
        return self.mesh.size

    def place(self, tree: Any) -> Any:
        """The arrays of a pytree, which every process has, on all devices."""
        return jax.jit(lambda tree: tree, out_shardings=NamedSharding(self.mesh, PartitionSpec()))(tree)

    def by_rows(self, part: np.ndarray, axis: int = 0) -> Array:
        """One array of the rows along `axis`, of which every process has an equal part."""
        rows = PartitionSpec(*[None] * axis, self.axis)
        return jax.make_array_from_process_local_data(NamedSharding(self.mesh, rows), part)

    def check(self, sca: Any) -> None:
        """Refuse a method that the scheme cannot spread."""
        if self.scheme == "blocks" and sca.blocks is None:
            raise ValueError("parallel: scheme='blocks' needs blocks=scax.Blocks(count), or use scheme='exact'.")
        if self.scheme != "exact":
            return
        if len(sca.problem.names) > 1:
            raise ValueError(
                "parallel: scheme='exact' shares out the rows of one function, and the problem has several terms: use "
                "scheme='data', or scheme='blocks' with blocks."
            )
        if sca.blocks is not None:
            raise ValueError(
                "parallel: scheme='exact' solves for all weights at once: leave blocks out, or use 'blocks'."
            )
        if sca.surrogate == "full" or not sca.problem.regularizer.is_smooth:
            what = "surrogate='full'" if sca.surrogate == "full" else type(sca.problem.regularizer).__name__
            raise ValueError(
                f"parallel: scheme='exact' shares the Gram matrix of a smooth surrogate and got {what}: use "
                "scheme='data', or scheme='blocks' with blocks."
            )
        if not isinstance(sca.solver, Auto) and not sca.solver.in_sample_space:
            raise ValueError(
                f"parallel: scheme='exact' works in sample space, and solver {sca.solver.name!r} does not: use "
                "solver='auto', 'structured', 'sample-space' or 'newton'."
            )

    def spread(self, step: Callable) -> Callable:
        """The step, run by all devices on what is the same everywhere (or, by rows, on what XLA makes of it)."""
        if self.scheme == "data":
            return lambda sca, state, batch: step(sca, state, self._by_rows(batch))
        same = PartitionSpec()
        return shard_map(step, mesh=self.mesh, in_specs=same, out_specs=same, check_vma=False)

    def solver(self, solver: Solver) -> Solver:
        """In the exact scheme, one that needs JJᵀ once."""
        return Direct(tolerance=solver.tolerance) if self.scheme == "exact" and isinstance(solver, Auto) else solver

    def linearize(self, network: NetworkFunction, w: Float[Array, "q"], x: Any, plan: StepPlan) -> Linearization:
        """f and J on all rows, as this device and its peers hold them."""
        if self.scheme == "exact":
            return share(network, w, x, plan.form, self.axis, self.units)
        return linearize(network, w, x, plan.form)

    def sample(
        self, network: NetworkFunction, w: Float[Array, "q"], x: Any, plan: StepPlan, directions: Callable
    ) -> tuple[Linearization, Linearization]:
        """(f and products with J, the rows C_iJ_i), C = directions(f) being drawn for all rows everywhere."""
        assert plan.directions is not None
        if self.scheme != "exact":
            return linearize_along(network, w, x, plan.form, directions, plan.directions)
        return share_along(network, w, x, plan.form, directions, plan.directions, self.axis, self.units)

    def outputs(self, network: NetworkFunction, w: Float[Array, "q"], x: Any) -> Float[Array, "n k"]:
        """f on all rows at other weights."""
        if self.scheme != "exact":
            return network(w, x)
        return gather_rows([network(w, own_rows(x, self.axis, self.units))], self.axis, x.shape[0])[0]

    def solve_blocks(self, solve: Callable[..., Solution], blocks: tuple) -> Solution:
        """The solutions of all blocks [c, …], each device solving c/units of them; one all-gather."""
        if self.scheme != "blocks":
            return solve(*blocks)
        count = blocks[0].shape[0]
        width = -(-count // self.units)
        unit = jax.lax.axis_index(self.axis)
        fill = lambda a: jnp.concatenate([a, jnp.repeat(a[:1], width * self.units - count, axis=0)])
        own = jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(fill(a), unit * width, width), blocks)
        parts = solve(*own)
        numbers = (parts.status, parts.iterations, parts.optimality)
        packed = jnp.concatenate([parts.delta, *(t.astype(parts.delta.dtype)[:, None] for t in numbers)], axis=1)
        every = jax.lax.all_gather(packed, self.axis, tiled=True)[:count]
        fields = [every[:, :-3], every[:, -3], every[:, -2], every[:, -1]]
        leaves, structure = jax.tree.flatten(parts)
        return jax.tree.unflatten(structure, [a.astype(b.dtype) for a, b in zip(fields, leaves, strict=True)])

    def _by_rows(self, batch: Any) -> Any:
        if isinstance(batch, TermBatch):
            return batch.map(self._by_rows)
        if missing := -batch.size % self.units:
            batch = self._filled(batch, missing)
        rows = NamedSharding(self.mesh, PartitionSpec(self.axis))
        place = lambda a: None if a is None else jax.lax.with_sharding_constraint(a, rows)
        return dataclasses.replace(batch, x=place(batch.x), y=place(batch.y), weight=place(batch.weight))

    def _filled(self, batch: Batch, missing: int) -> Batch:
        """The same average over a multiple of as many rows as there are devices: those added have no weight."""
        if batch.pairs is not None:
            raise ValueError(
                f"parallel: scheme='data' gives each of {self.units} devices as many rows, and the batch, whose rows "
                f"have neighbor pairs, has {batch.size}: make it a multiple of {self.units}."
            )
        weight = jnp.ones(batch.size, float) if batch.weight is None else batch.weight
        again = lambda a: jnp.concatenate([a, jnp.repeat(a[:1], missing, axis=0)])
        return Batch(again(batch.x), again(batch.y), jnp.concatenate([weight, jnp.zeros(missing, weight.dtype)]))
