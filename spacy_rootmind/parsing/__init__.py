"""What to parse with, and the parsing of streams of records."""
