"""Losses l(y, z): convex and smooth in the network's raw output z, one value per sample."""

from .base import Loss as Loss
from .huber import Huber as Huber
from .logistic import Logistic as Logistic
from .poisson import Poisson as Poisson
from .softmax import Softmax as Softmax
from .squared import Squared as Squared
from .stacked import StackedLoss as StackedLoss
