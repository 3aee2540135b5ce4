from spacy_rootmind.kernel.arrays import Doubles, Heads

def decode_kbest(
    scores: Doubles, k: int, single_root: bool, projective: bool
) -> tuple[int, Heads | None]: ...
