"""The run-time type checker of the tests: as for static checkers, an int may stand where a float is annotated."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
