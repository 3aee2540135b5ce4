"""Registries of spaCy's libraries, looked through once: else a third of the time of many tests.

They are looked through for each name that spaCy looks up, and for each array that is saved.
"""


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
