"""The shell around the method: the compiled loop, history, evaluation."""

from .baseline import baseline as baseline
from .finish import Stationarity as Stationarity
from .finish import finish as finish
from .finish import stationarity as stationarity
from .loop import Result as Result
from .loop import train as train
from .many import train_many as train_many
from .path import Path as Path
from .path import path as path
from .refit import refit as refit
