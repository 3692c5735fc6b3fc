"""Curves and tables as one HTML page, from run folders alone."""

from .build import build as build
