"""Environments in worker processes: the two sides of the pipe, and what workers do."""
