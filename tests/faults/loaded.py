"""Loads the pipeline of the environment variable PIPELINE once, for all forks of this process.

Loading takes longer than the rest of a small run, and changes no file.
"""

import os

from spacy_rootmind.parsing.settings import ParserSettings

NLP = ParserSettings(os.environ["PIPELINE"]).load()
ParserSettings.load = lambda settings: NLP
