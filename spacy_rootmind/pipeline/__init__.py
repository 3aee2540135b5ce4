"""The pipeline component `root_mst`, its settings and its scorer."""
