"""What to run: settings, algorithms, experiments, presets and grids. Imports no JAX."""
