from spacy_rootmind.kernel.arrays import Heads, Keys, Scores, Sizes

class ArcFeatures:
    def __new__(
        cls,
        keys: Keys,
        between: Keys,
        previous: Heads,
        bucket_keys: Keys,
        buckets: Heads,
        roots: Sizes,
        lengths: Sizes,
    ) -> ArcFeatures: ...
    def score(self, weights: Scores, scores: Scores) -> None: ...
    def add_gradient(self, d_weights: Scores, d_scores: Scores) -> None: ...
