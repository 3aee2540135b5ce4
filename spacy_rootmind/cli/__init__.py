"""The command line: `python -m spacy_rootmind`, and a command of `python -m spacy debug`."""
