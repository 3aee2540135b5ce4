"""`python -m spacy_rootmind`."""

from spacy_rootmind.cli.app import main

if __name__ == "__main__":
    main()
