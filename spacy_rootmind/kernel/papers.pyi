from spacy_rootmind.kernel.decode import Decoder

NAMES: dict[str, int]

class ReductionDecoder(Decoder):
    def __new__(
        cls,
        max_words: int,
        single_root: bool,
        arcmax: bool,
        arcmax_inside: bool,
        reduction: str,
        textbook: bool,
    ) -> ReductionDecoder: ...
