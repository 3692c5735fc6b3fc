"""A training on a table that lives in a folder: its options, its rows, its checkpoints, its end."""
