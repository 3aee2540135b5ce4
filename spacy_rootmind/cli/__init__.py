"""The command line: `python -m spacy_rootmind`, and `python -m spacy debug root-mst`."""
