"""Loads the pipeline of the environment variable PIPELINE once, for all forks of this process.

Loading takes longer than the rest of a small run, and changes no file.
"""

import os

from spacy_rootmind.cli import parse
from spacy_rootmind.cli.options import ParseOptions
from spacy_rootmind.cli.pipelines import load_pipeline

NLP = load_pipeline(ParseOptions(os.environ["PIPELINE"], []))
parse.load_pipeline = lambda options: NLP
