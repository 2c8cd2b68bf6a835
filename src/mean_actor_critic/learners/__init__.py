"""Learners: pure functions from (state, trajectory) to (state, metrics) of one trial."""
