"""Regularizers R(w): functions of the weights, convex or convexified at an iterate, with their strength and prox."""

from .base import Regularizer as Regularizer
from .box import Box as Box
from .group import GroupLasso as GroupLasso
from .groups import Groups as Groups
from .groups import neuron_groups as neuron_groups
from .l1 import L1 as L1
from .l1 import ElasticNet as ElasticNet
from .l2 import L2 as L2
from .log_sum import LogSum as LogSum
from .manifold import Graph as Graph
from .manifold import Manifold as Manifold
from .manifold import knn_graph as knn_graph
from .sum import Sum as Sum
from .support import Support as Support
