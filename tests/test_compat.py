"""spaCy's undocumented names are in `compat` alone."""

import ast
from functools import cache

from conftest import ROOT

PACKAGES = ("spacy", "thinc", "spacy_transformers", "spacy_curated_transformers")

# Names that the sources import from these packages: names on spaCy's and Thinc's pages.
DOCUMENTED = {
    "spacy": "attrs blank displacy language load matcher parts_of_speech pipeline strings "
    "tokenizer tokens training util vectors vocab",
    "spacy.attrs": "DEP ENT_ID ENT_IOB ENT_KB_ID ENT_TYPE HEAD IDS IS_ALPHA IS_SPACE LEMMA MORPH "
    "NORM ORTH POS SENT_START SPACY TAG intify_attr",
    "spacy.language": "Language",
    "spacy.matcher": "DependencyMatcher Matcher",
    "spacy.parts_of_speech": "IDS NOUN PRON PROPN",
    "spacy.pipeline": "Morphologizer Pipe Tok2Vec TrainablePipe",
    "spacy.scorer": "Scorer",
    "spacy.strings": "StringStore",
    "spacy.tokenizer": "Tokenizer",
    "spacy.tokens": "Doc DocBin Span Token",
    "spacy.training": "Corpus Example validate_examples validate_get_examples",
    # `ensure_path`, `logger`, `to_bytes` and `to_disk` are on no page. spaCy's own
    # components in other packages use them, so they stay.
    "spacy.util": "ensure_path get_package_path is_in_jupyter is_package load_config logger "
    "minibatch registry to_bytes to_disk",
    "spacy.vectors": "Vectors",
    "spacy.vocab": "Vocab",
    "thinc.api": "Adam Config ConfigValidationError HashEmbed LayerNorm Linear Maxout Model "
    "NumpyOps Ops Optimizer PyTorchShim TorchScriptShim chain concatenate deserialize_attr "
    "expand_window get_array_module list2ragged ragged2list with_array "
    "glorot_uniform_init registry require_gpu serialize_attr set_dropout_rate to_numpy "
    "uniform_init zero_init",
    "thinc.types": "Generator",
}
# Extension attributes, methods of named tuples and of the standard library, and names of torch,
# which has no public ones: how often a tensor was changed, and how distributions are checked.
NOT_PRIVATE = {"_", "_asdict", "_fields", "_replace", "_exit"}
NOT_PRIVATE |= {"_version", "_validate_args", "_validate_sample"}


def is_private(name):
    return name.startswith("_") and not name.endswith("__")


@cache
def sources():
    """All nodes of the package's modules, by path, except `compat`."""
    paths = [path for path in (ROOT / "spacy_rootmind").rglob("*.py") if path.name != "compat.py"]
    return {path: list(ast.walk(ast.parse(path.read_text("utf8")))) for path in paths}


def undocumented(nodes):
    """Names of spaCy and Thinc that a module imports, or finds in what it imports."""
    modules = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            found = [(alias.name, None, alias.asname) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found = [(node.module, alias.name, alias.asname) for alias in node.names]
        else:
            continue
        for module, name, alias in found:
            if module.split(".")[0] not in PACKAGES:
                continue
            if module not in DOCUMENTED or name not in (None, *DOCUMENTED[module].split()):
                yield f"{module}.{name}"
            whole = module if name is None else f"{module}.{name}"
            modules[alias or name or module.split(".")[0]] = whole
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id)
            # `spacy.util.registry` is found from `spacy.util`, attributes of classes are not.
            if module in DOCUMENTED and node.attr not in DOCUMENTED[module].split():
                yield f"{module}.{node.attr}"


def private_uses(nodes, own):
    """Private attributes that no module of the package defines, or that a base class defines."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            is_of_base = isinstance(node.value, ast.Call) and ast.unparse(node.value) == "super()"
            if is_of_base or node.attr not in own:
                yield ast.unparse(node)


def private_names(nodes):
    """Names of private functions, attributes and fields that a module defines."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def test_documented_names_alone_are_imported_from_spacy():
    found = [f"{path}: {name}" for path, nodes in sources().items() for name in undocumented(nodes)]
    assert not found


def test_private_attributes_are_the_packages_own():
    own = {name for nodes in sources().values() for name in private_names(nodes)} | NOT_PRIVATE
    found = [f"{path}: {n}" for path, nodes in sources().items() for n in private_uses(nodes, own)]
    assert not found
