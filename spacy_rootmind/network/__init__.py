"""The parser's network: Thinc layers, one per file. Nothing here reads a spaCy Doc."""
