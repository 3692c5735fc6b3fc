"""What was out of the ordinary while a table was encoded."""

import dataclasses


@dataclasses.dataclass
class Tally:
    """What was out of the ordinary while encoding, counted: {column: rows}. `sentences()` tells a person."""

    unseen: dict[str, int] = dataclasses.field(default_factory=dict)
    filled: dict[str, int] = dataclasses.field(default_factory=dict)
    extra: tuple[str, ...] = ()
    examples: dict[str, str] = dataclasses.field(default_factory=dict)  # the first value of a column never seen

    def sentences(self) -> list[str]:
        """One sentence per kind of surprise and column."""
        sentences = [
            f"Column {name!r} has {n:,} value(s) new or rare in training{self._such_as(name)}: "
            "they count as none of its levels."
            for name, n in self.unseen.items()
        ]
        sentences += [
            f"Column {name!r} has {n:,} missing value(s) and had none in training: the median stands in."
            for name, n in self.filled.items()
        ]
        if self.extra:
            more = ", …" if len(self.extra) > 5 else ""
            sentences.append(
                f"Ignored, because the model does not know them: {', '.join(map(repr, self.extra[:5]))}{more}."
            )
        return sentences

    def _such_as(self, name: str) -> str:
        example = self.examples.get(name)
        return "" if example is None else f", such as {example[:40]!r}"
