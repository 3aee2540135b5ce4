"""A saved pipeline and texts to parse, for tests that need pyarrow."""

import pytest


@pytest.fixture(scope="session")
def pipeline(trained, tmp_path_factory):
    """A folder with a small parser."""
    folder = tmp_path_factory.mktemp("pipeline") / "model"
    trained.to_disk(folder)
    return folder
