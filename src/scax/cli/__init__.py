"""The command line: arguments in, words out, nothing else."""
