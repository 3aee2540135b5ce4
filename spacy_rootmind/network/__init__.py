"""The parser's network: Thinc layers, one per file. Docs are only passed to the token vectors."""
