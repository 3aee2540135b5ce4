from spacy_rootmind.kernel.arrays import Doubles, Heads, Sizes
from spacy_rootmind.kernel.batch import ScoreBuffer, Worker

LOG_Z: int
CONSTANTS: int

class Summation(Worker):
    def __new__(cls, max_words: int, projective: bool = False) -> Summation: ...

class Query(Worker):
    def __new__(cls, max_words: int) -> Query: ...

def sum_batch(
    buffer: ScoreBuffer,
    single_root: bool,
    summations: list[Summation],
    summaries: Doubles,
    marginals: Doubles | None = None,
    allow_no_tree: bool = False,
) -> tuple[int, int]: ...
def log_prob_batch(
    buffer: ScoreBuffer,
    single_root: bool,
    queries: list[Query],
    summaries: Doubles,
    heads: Heads,
    out: Doubles,
) -> tuple[int, int]: ...
def cross_entropy_batch(
    buffer: ScoreBuffer,
    single_root: bool,
    queries: list[Query],
    summaries: Doubles,
    marginals: Doubles,
    out: Doubles,
) -> None: ...
def expectation_batch(
    values: ScoreBuffer, queries: list[Query], marginals: Doubles, out: Doubles
) -> tuple[int, int]: ...
def log_ratio_batch(lengths: Sizes, part: Doubles, whole: Doubles, out: Doubles) -> None: ...
