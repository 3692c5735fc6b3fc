"""The paper's experiments: one config per row, results in a file, tables and figures from the file alone.

`configs` states what the paper ran and printed, `tables` loads its data sets, `optimizers` and `follow` run all
repetitions side by side, `regression`, `susy` and `speedup` are the three experiments, and `statistics`, `figures` and
`page` read the results file.
"""
