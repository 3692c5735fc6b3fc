"""Rounds on Flower: a ClientApp that answers with sums or steps, and a Strategy that adds them up.

Flower moves the messages, knows who is there, waits and gives up; what is computed are the functions of `exact` and
`local`. Flower is the extra `scax[federated]`.
"""

import dataclasses
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .._extras import required_by
from .._text import printable
from ..status import Status
from .exact import ExactRounds, RoundInfo
from .local import LocalRounds, Update
from .statistics import Reason, Statistics, pack, unpack

#: Seconds between two looks at who is there, while sites are awaited.
PAUSE = 0.5
#: Characters of a warning: the names in it are the sites' own.
LONGEST = 500


def make_client_app(
    method_for: Callable[[str], ExactRounds | LocalRounds], params: PyTree, load: Callable[[Any], Any]
) -> Any:
    """A flwr ClientApp that answers rounds of the scheme the server names; `load(context)` gives the rows of the site,
    (x, y) or (x, y, weight), once for each node and scheme in a process."""
    with required_by("scax.federated.client_app"):
        from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
        from flwr.clientapp import ClientApp
    app = ClientApp()
    methods: dict[str, Any] = {}
    answers: dict[str, Any] = {}
    rows: dict[tuple[int, str], Any] = {}

    @app.train()
    def train(message: Message, context: Any) -> Message:
        sent, scheme = _arrays(message.content["arrays"]), str(message.content["config"]["scheme"])
        if scheme not in methods:
            methods[scheme] = method_for(scheme)
            answers[scheme] = jax.jit(methods[scheme].answer)
        place = context.node_id, scheme
        if place not in rows:
            method = methods[scheme]
            rows[place] = method.prepare(method.problem.ready(params, load(context)))
        number = (jnp.asarray(sent[name]) for name in ("round", "site"))
        sums = answers[scheme](params, jnp.asarray(sent["w"]), rows[place], *number)
        arrays = pack(sums) if isinstance(sums, Statistics) else _fields(sums)
        name = str(context.node_config.get("name", context.node_config.get("partition-id", context.node_id)))
        content = RecordDict({"arrays": ArrayRecord(_record(arrays)), "site": ConfigRecord({"name": name})})
        return Message(content=content, reply_to=message)

    return app


def make_strategy(method: ExactRounds | LocalRounds, params: PyTree) -> Any:
    """A flwr Strategy for `method.sites` sites, with `arrays` to start from, `params`, `history` and `status`."""
    with required_by("scax.federated.strategy"):
        from flwr.serverapp.strategy import Strategy
    server = Server(method, params)

    class Rounds(Strategy):
        """Rounds of sums; what it knows is in `server`."""

        @property
        def arrays(self):
            return _to_record({"w": np.asarray(server.state.w)})

        @property
        def params(self):
            state: Any = server.state  # each method's own
            return method.solution(state)

        @property
        def history(self):
            return {name: np.asarray(values) for name, values in server.history.items()}

        @property
        def status(self):
            return server.status

        def configure_train(self, server_round, arrays, config, grid):
            if server_round == 1:
                server.begin(_arrays(arrays))
            return server.messages(grid)

        def aggregate_train(self, server_round, replies):
            return server.take(replies)

        def configure_evaluate(self, server_round, arrays, config, grid):
            return []

        def aggregate_evaluate(self, server_round, replies):
            return None

        def summary(self):
            return None

    return Rounds()


class Server:
    """The state of the rounds, and which node is which site."""

    def __init__(self, method: ExactRounds | LocalRounds, params: PyTree):
        self.method, self.state = method, method.init(params)
        self.trial, self.receive = jax.jit(method.trial), jax.jit(method.receive)
        self.objective = jax.jit(method.objective)
        self.places: dict[int, int] = {}  # node → site
        self.history: dict[str, list[float]] = {}
        self.status = "steps"

    def begin(self, arrays: dict[str, np.ndarray]) -> None:
        """From the weights that the run was started with."""
        w = self.state.w
        if (given := arrays.get("w")) is None or given.shape != w.shape or given.dtype != w.dtype:
            raise ValueError("initial_arrays are not this network's: give the strategy's own arrays.")
        if not np.array_equal(given, w):
            self.state = self.method.init(self.state.layout.unflatten(jnp.asarray(given), self.state.frozen))
            self.status = "steps"

    def messages(self, grid: Any) -> Iterable[Any]:
        """The weights to answer at, for every site that is there; the first round waits for all. None after the end:
        Flower's rounds cannot be cut short, but these cost nothing."""
        import time

        from flwr.app import ConfigRecord, Message, MessageType, RecordDict

        if self.status != "steps":
            return []
        here = list(grid.get_node_ids())
        while not self.places and len(here) < self.method.sites:
            time.sleep(PAUSE)
            here = list(grid.get_node_ids())
        for node in sorted(here):
            if node not in self.places and len(self.places) < self.method.sites:
                self.places[node] = len(self.places)
        arrays = {"w": np.asarray(self.trial(self.state)), "round": np.asarray(self.state.count)}
        messages = []
        for node in here:
            if node in self.places:
                own = _to_record(arrays | {"site": np.asarray(self.places[node], np.int32)})
                config = ConfigRecord({"scheme": "exact" if isinstance(self.method, ExactRounds) else "local"})
                content = RecordDict({"arrays": own, "config": config})
                messages.append(Message(content=content, message_type=MessageType.TRAIN, dst_node_id=node))
        return messages

    def take(self, replies: Iterable[Any]) -> tuple[Any, Any]:
        """The answers, added up: (the weights, what the round reports)."""
        from flwr.app import MetricRecord

        w = self.state.w
        if self.status != "steps":
            return _to_record({"w": np.asarray(w)}), None
        sent, answered = [self.method.nothing(w)] * self.method.sites, np.zeros(self.method.sites, bool)
        names: dict[int, str] = {}  # of sites whose answers have the right form
        for reply in replies:
            place = self.places[reply.metadata.src_node_id]
            if reply.has_error():
                _warn(f"site {place} did not answer: {reply.error.reason}")
                continue
            answered[place] = True
            try:
                name = str(reply.content["site"]["name"])
                sent[place] = self.read(name, _arrays(reply.content["arrays"]))
                names[place] = name
            except (KeyError, TypeError, ValueError) as error:
                _warn(f"left out of a round: {error}")
        together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *sent)
        self.state, info = self.receive(self.state, together, jnp.asarray(answered))
        for place, name in names.items():
            if reason := Reason(int(info.reason[place])):
                what = "left out of a round" if self.state.is_bad[place] else "the step is refused, the site is not"
                _warn(f"{what}: site {name}: {reason.message}")
        if isinstance(info, RoundInfo) and bool(info.is_end):
            self.status = Status(int(info.status)).name.lower()
        values = {"objective": self.objective(self.state)} | info.records
        values = {name: float(value) for name, value in values.items()}
        for name, value in values.items():
            self.history.setdefault(name, []).append(value)
        return _to_record({"w": np.asarray(self.state.w)}), MetricRecord(dict(values))

    def read(self, name: str, arrays: dict[str, np.ndarray]) -> Statistics | Update:
        """What a site sent; ValueError with its name where its arrays are not of the form the server can add."""
        w = self.state.w
        nothing = self.method.nothing(w)
        wanted = pack(nothing) if isinstance(nothing, Statistics) else _fields(nothing)
        form = lambda array: f"{array.dtype}{list(array.shape)}"
        for part, like in wanted.items():
            if part not in arrays:
                raise ValueError(f"site {name}: it sent no {part}.")
            if form(arrays[part]) != form(like):
                raise ValueError(f"site {name}: its {part} is {form(arrays[part])}, expected {form(like)}.")
        values = {part: jnp.asarray(arrays[part]) for part in wanted}
        if not isinstance(nothing, Statistics):
            return dataclasses.replace(nothing, **values)
        return unpack(values, w.shape[0])


def _fields(sums: Any) -> dict[str, np.ndarray]:
    values = {field.name: getattr(sums, field.name) for field in dataclasses.fields(sums)}
    return {name: np.asarray(value) for name, value in values.items() if value is not None}


def _record(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    from flwr.app import Array

    return {name: Array(np.ascontiguousarray(array).reshape(array.shape)) for name, array in arrays.items()}


def _to_record(arrays: dict[str, np.ndarray]) -> Any:
    from flwr.app import ArrayRecord

    return ArrayRecord(_record(arrays))


def _arrays(record: Any) -> dict[str, np.ndarray]:
    return {name: array.numpy() for name, array in record.items()}


def _warn(text: str) -> None:
    """What a site says of itself is shown, and not obeyed by a terminal."""
    warnings.warn(printable(text, LONGEST), RuntimeWarning, stacklevel=3)
