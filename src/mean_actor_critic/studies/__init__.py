"""Studies: the paper's presets and comparisons."""
