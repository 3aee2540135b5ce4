"""Makes spaCy faster in tests: registries looked through once, fewer tokenizer exceptions.

The registries of its libraries take a third of the time of many tests: they are looked through for
each name that spaCy looks up, and for each array that is saved.
"""


def keep_few_exceptions():
    """Let languages without tokenizer exceptions of their own have those for whitespace alone.

    spaCy's emoticons take half of the time of `spacy.blank("xx")`, which hundreds of tests call.
    """
    try:
        from spacy.language import BaseDefaults
    except ModuleNotFoundError:
        # Tests of arrays run without spaCy.
        return
    exceptions = BaseDefaults.tokenizer_exceptions
    BaseDefaults.tokenizer_exceptions = {k: v for k, v in exceptions.items() if k.isspace()}


def look_through_once():
    """Let entry points be found by their group, in a dict, and remember what encodes arrays."""
    try:
        import catalogue
        from srsly import msgpack
    except ModuleNotFoundError:
        # Tests of arrays run without spaCy.
        return
    found = catalogue.AVAILABLE_ENTRY_POINTS
    if hasattr(found, "select"):
        # As it may have them from Python.
        groups = {name: list(found.select(group=name)) for name in found.groups}
        catalogue.AVAILABLE_ENTRY_POINTS = groups
    for registry in (msgpack.msgpack_encoders, msgpack.msgpack_decoders):
        registry.get_all = remembered(registry.get_all, catalogue.REGISTRY)


def remembered(get_all, registered):
    """Remember the functions of a registry until something is registered anywhere."""
    kept = {}

    def get_all_once():
        if len(registered) not in kept:
            kept.clear()
            kept[len(registered)] = get_all()
        return kept[len(registered)].copy()

    return get_all_once
