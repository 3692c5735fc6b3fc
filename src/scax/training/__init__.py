"""The engine: methods, feeds, the one compiled loop; single runs, many at once, paths, exact ends."""

from .baseline import baseline as baseline
from .finish import Stationarity as Stationarity
from .finish import finish as finish
from .finish import stationarity as stationarity
from .many import train_many as train_many
from .path import Path as Path
from .path import path as path
from .refit import refit as refit
from .run import Result as Result
from .run import train as train
