"""MinAtar's five games (Young & Tian 2019) as JAX programs: written from their rules, not from the package's code."""
