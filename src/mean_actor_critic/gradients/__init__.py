"""The theory, measured: bias and variance of the policy gradient's estimators."""
