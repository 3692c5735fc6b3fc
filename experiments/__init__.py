"""Studies behind the documentation: each is a command that writes a results file, and plots are made from the file."""
