"""Words per second of trained pipelines on the raw text of a treebank, tokenization included.

The pipelines are timed in turns, by processor time. To see where the time goes, use a profiler such
as cProfile.

    python benchmarks/component.py training/model-best other/model-best --corpus test.spacy
"""

from lib.options import add_pipelines, make_parser
from lib.pipelines import read_gold, words_per_second
from lib.tables import table


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    add_pipelines(parser)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    texts = [doc.text for doc in read_gold(options.corpus, options.limit)]
    speeds = words_per_second({name: name for name in options.models}, texts, options.rounds)
    rows = [[model, f"{speed:,.0f}"] for model, speed in speeds.items()]
    print(table(["pipeline", "words per second"], rows))


if __name__ == "__main__":
    main()
