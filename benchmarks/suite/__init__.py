"""The comparison on tasks: our learner, at its one setting, and other packages', with equal steps on one machine."""
