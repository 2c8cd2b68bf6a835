"""How one trial learns: pure functions of arrays of one trial."""
