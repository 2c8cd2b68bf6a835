"""MinAtar's five games (Young & Tian 2019) as JAX programs, in our own words and structure."""
