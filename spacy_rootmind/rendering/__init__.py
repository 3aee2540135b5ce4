"""Pictures of parses and their alternatives, in displaCy's style."""
