"""Entry points of packages, looked through once.

For each name that spaCy looks up, catalogue goes through those of all packages: without this, a
third of the time of tests that make pipelines.
"""


def group_entry_points():
    """Let catalogue find them by their group, in a dict, as it may have them from Python."""
    try:
        import catalogue
    except ModuleNotFoundError:
        # Tests of arrays run without spaCy.
        return
    found = catalogue.AVAILABLE_ENTRY_POINTS
    if hasattr(found, "select"):
        groups = {name: list(found.select(group=name)) for name in found.groups}
        catalogue.AVAILABLE_ENTRY_POINTS = groups
