"""Settings of a parse, and the parsing of streams of records."""
