"""Several processes: hosts that step together, workers that do not wait for each other."""
