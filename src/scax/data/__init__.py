"""Tables in, batches out."""

from .shuffle import Shuffle as Shuffle
