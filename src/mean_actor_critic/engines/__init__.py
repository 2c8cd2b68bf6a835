"""Who plays, and when the learner is called."""
