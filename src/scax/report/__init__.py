"""Curves and tables as one HTML page, from run folders alone: `scax.report.build.build(folder)`."""
