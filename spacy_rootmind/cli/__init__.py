"""The command line: `python -m spacy_rootmind`, and what it adds to `python -m spacy`."""
