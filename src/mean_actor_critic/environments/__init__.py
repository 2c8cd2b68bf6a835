"""Environments: those that are JAX programs run inside the compiled engine."""
