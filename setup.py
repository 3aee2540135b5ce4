"""Extension list only; everything else about the package is in pyproject.toml."""

import os

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup

DEBUG = os.environ.get("ROOTMIND_DEBUG") == "1"
SANITIZE = ["-g", "-O1", "-fsanitize=address,undefined"] if DEBUG else []
KERNEL = [
    "_decode",
    "_chu_liu_edmonds",
    "_reductions",
    "_eisner",
    "_kbest",
    "_elimination",
    "_matrix_tree",
    "_insertion",
    "_conditional",
    "_walk",
    "_colbourn",
    "_distinct",
    "_sample",
    "_batch",
    "_pool",
    "_kernel",
    "_distribution",
]
HEADERS = [f"cython_src/{name}" for name in ("rows.h", "weights.h", "weights.pxd", "wide.h")]

extensions = [
    Extension(
        f"spacy_rootmind.{name}",
        [f"cython_src/{name}.pyx"],
        depends=HEADERS,
        include_dirs=["cython_src", numpy.get_include()],
        extra_compile_args=SANITIZE,
        extra_link_args=SANITIZE,
    )
    for name in KERNEL
]
# The one module that touches spaCy's own memory; its headers are C++ and use NumPy's.
extensions.append(
    Extension(
        "spacy_rootmind._doc",
        ["cython_src/_doc.pyx"],
        include_dirs=[numpy.get_include()],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
        language="c++",
    )
)

setup(
    ext_modules=cythonize(
        extensions,
        build_dir="build/cython",
        include_path=[".", "cython_src"],
        compiler_directives={
            "language_level": 3,
            "boundscheck": DEBUG,
            "wraparound": DEBUG,
            "initializedcheck": DEBUG,
            "cdivision": True,
        },
    )
)
