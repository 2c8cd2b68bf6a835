"""What the commands of `mac` do. Imports JAX only when something is about to be trained or played."""
