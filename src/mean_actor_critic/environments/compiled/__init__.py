"""Environments that are JAX programs."""
