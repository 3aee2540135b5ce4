from spacy_rootmind.kernel.arrays import Bytes, Scores, Sizes

OK: int
NO_TREE: int
BAD_SCORE: int
NO_MEMORY: int
LOST_DIGITS: int
MOST_THREADS: int

class ScoreBuffer:
    def __new__(cls, scores: Scores, allowed: Bytes | None, lengths: Sizes) -> ScoreBuffer: ...

class Worker: ...
