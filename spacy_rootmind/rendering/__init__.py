"""Pictures of parses, drawn by displaCy."""
