"""What `init-config` adds to spaCy's config: values as in the shipped configs, and comments."""

from dataclasses import dataclass
from typing import Any

# All are merged into a complete config: settings that are not here keep their defaults.
TRAINING = """
[system]
seed = 0

[training]
patience = 0
dev_corpus = "corpora.calibrated_dev"

[corpora]

[corpora.calibrated_dev]
@readers = "spacy_rootmind.CalibrationCorpus.v1"
corpus = ${corpora.dev}
pipe = "root_mst"
"""

ON_CPU = """
[nlp]
batch_size = 256

[training]
dropout = 0.2
max_steps = 7000
eval_frequency = 500

[training.batcher]
@batchers = "spacy.batch_by_words.v1"
discard_oversize = false
tolerance = 0.2
get_length = null
size = 1000

[training.optimizer]
@optimizers = "Adam.v1"
use_averages = true

[training.optimizer.learn_rate]
@schedules = "warmup_linear.v1"
warmup_steps = 250
total_steps = 7000
initial_rate = 0.002
"""

# The parser's own layers use NumPy's BLAS anyway, the shared tok2vec and other components do not.
WITH_OTHERS = """
[nlp]

[nlp.after_pipeline_creation]
@callbacks = "spacy_rootmind.numpy_blas.v1"

[components]

[components.root_mst]
learn_rate_factor = 2.0

[components.root_mst.model]
lstm_width = 192
arc_width = 192
label_width = 96
"""

OVER_TRANSFORMER = """
[system]
gpu_allocator = "pytorch"

[nlp]
batch_size = 128

[nlp.after_pipeline_creation]
@callbacks = "spacy_rootmind.bfloat16.v1"

[components]

[components.root_mst]
learn_rate_factor = 20.0

[components.root_mst.model]
lstm_width = 0
arc_width = 256
label_width = 128
refinements = 1
dropout = 0.1
boundary_width = 64
null_label = true
grad_factor = 1.0

[training]
accumulate_gradient = 3
dropout = 0.1
max_steps = 5000
eval_frequency = 250

[training.batcher]
@batchers = "spacy.batch_by_padded.v1"
discard_oversize = false
size = 2000
buffer = 256
get_length = null

[training.optimizer]
@optimizers = "Adam.v1"
use_averages = false

[training.optimizer.learn_rate]
@schedules = "warmup_linear.v1"
warmup_steps = 500
total_steps = 5000
initial_rate = 5e-05
"""

TRANSFORMER = """
[components]

[components.transformer]
factory = "transformer"
max_batch_items = 4096

[components.transformer.model]
@architectures = "spacy-transformers.TransformerModel.v3"
name = ${paths.encoder}
mixed_precision = false

[components.transformer.set_extra_annotations]
@annotation_setters = "spacy-transformers.null_annotation_setter.v1"

[components.transformer.model.get_spans]
@span_getters = "spacy-transformers.strided_spans.v1"
window = 128
stride = 96

[components.transformer.model.tokenizer_config]
use_fast = true

[components.transformer.model.transformer_config]

[components.transformer.model.grad_scaler_config]
"""

CURATED = """
[components]

[components.transformer]
factory = "curated_transformer"
frozen = false
all_layer_outputs = false

[components.transformer.model]
@architectures = "spacy-curated-transformers.BertTransformer.v1"
vocab_size = 28996
hidden_width = 768
mixed_precision = false
attention_probs_dropout_prob = 0.1
hidden_act = "gelu"
hidden_dropout_prob = 0.1
intermediate_width = 3072
layer_norm_eps = 1e-12
max_position_embeddings = 512
model_max_length = 512
num_attention_heads = 12
num_hidden_layers = 12
padding_idx = 0
type_vocab_size = 2
torchscript = false
wrapped_listener = null

[components.transformer.model.piece_encoder]
@architectures = "spacy-curated-transformers.BertWordpieceEncoder.v1"

[components.transformer.model.with_spans]
@architectures = "spacy-curated-transformers.WithStridedSpans.v1"
window = 128
stride = 96
batch_size = 384

[components.transformer.model.grad_scaler_config]

[initialize]

[initialize.components]

[initialize.components.transformer]

[initialize.components.transformer.encoder_loader]
@model_loaders = "spacy-curated-transformers.HFTransformerEncoderLoader.v1"
name = ${paths.encoder}
revision = "main"

[initialize.components.transformer.piecer_loader]
@model_loaders = "spacy-curated-transformers.HFPieceEncoderLoader.v1"
name = ${paths.encoder}
revision = "main"
"""

# The tags of whitespace, which no treebank annotates, in spaCy's pipelines, by the tagger's name.
OF_WHITESPACE = {"tagger": {"TAG": "_SP"}, "morphologizer": {"POS": "SPACE", "MORPH": "_"}}

TOK2VEC_LISTENER = {
    "@architectures": "spacy.Tok2VecListener.v1",
    "width": "${components.tok2vec.model.encode.width}",
    "upstream": "*",
}


@dataclass(frozen=True)
class Encoder:
    """A transformer's sections, the section of a listener to it, and the package of both."""

    sections: str
    listener: dict[str, Any]
    package: str


ENCODERS = {
    "transformer": Encoder(
        TRANSFORMER,
        {
            "@architectures": "spacy-transformers.TransformerListener.v1",
            "grad_factor": 1.0,
            "pooling": {"@layers": "reduce_mean.v1"},
            "upstream": "*",
        },
        "spacy-transformers",
    ),
    "curated": Encoder(
        CURATED,
        {
            "@architectures": "spacy-curated-transformers.LastTransformerLayerListener.v1",
            "width": "${components.transformer.model.hidden_width}",
            "grad_factor": 1.0,
            "pooling": {"@layers": "reduce_mean.v1"},
            "upstream": "*",
        },
        "spacy-curated-transformers",
    ),
}

# In front of the lines that start like this.
COMMENTS = {
    '@callbacks = "spacy_rootmind.numpy_blas.v1"': (
        "All components multiply matrices with NumPy's BLAS, which is faster than Thinc's."
    ),
    '@callbacks = "spacy_rootmind.bfloat16.v1"': (
        "On a CPU with instructions for bfloat16, the transformer multiplies matrices in it."
    ),
    "max_steps =": (
        "The learning rate falls to zero over total_steps below: change both together."
    ),
    "[corpora.calibrated_dev]": (
        "Before each evaluation, the temperatures of arc and label probabilities are fitted to the "
        "dev corpus."
    ),
    'neg_prefix = ""': (
        'spaCy\'s default, "!", fails where that is a tag, as in Irish and Vietnamese.'
    ),
    'patterns = [{"patterns": [[{"IS_SPACE": true}]]': (
        "Whitespace, which no treebank annotates, is tagged as in spaCy's own pipelines."
    ),
    "learn_rate_factor = 2.0": (
        "The parser's own layers learn faster than the token vectors that it shares."
    ),
    "accumulate_gradient = 3": "Each batch is processed in this many parts, which bounds memory.",
    "use_averages = false": (
        "spaCy would average only the weights of the layers above the encoder, which then would "
        "not fit those of the encoder."
    ),
    "initial_rate = 5e-05": (
        "The encoder's rate; that of the parser's own layers is learn_rate_factor times higher."
    ),
    '@architectures = "spacy-curated-transformers.BertTransformer.v1"': (
        "Sizes and similar settings must be those in the encoder's config.json."
    ),
    '@span_getters = "spacy-transformers.strided_spans.v1"': (
        "Docs of any length are processed in windows of this many words; shared words count in "
        "both. If a window has more pieces than the encoder accepts (usually 512), the last are "
        "cut off and their words missing from it: lower both numbers for languages with about four "
        "pieces per word."
    ),
    '@architectures = "spacy-curated-transformers.WithStridedSpans.v1"': (
        "Docs of any length are processed in windows of this many pieces; shared pieces are "
        "averaged."
    ),
}
