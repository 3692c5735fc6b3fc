"""Networks of our own; any other pure function of (params, x) serves as well."""

from .mlp import MLP as MLP
