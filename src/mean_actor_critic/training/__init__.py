"""Training loops: they advance a study segment by segment."""
