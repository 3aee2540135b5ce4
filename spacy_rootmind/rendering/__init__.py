"""Pictures of parses and their alternatives, drawn by displaCy."""
