"""The shell around the method: the compiled loop, history, evaluation."""

from .loop import Result as Result
from .loop import train as train
from .many import train_many as train_many
