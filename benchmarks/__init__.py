"""How fast the project is, beside what else one could use: `python -m benchmarks [part …]`."""
