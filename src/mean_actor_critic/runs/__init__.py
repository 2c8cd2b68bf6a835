"""Studies on disk: training, resuming, playing and reading them."""
