"""Extension list only; everything else about the package is in pyproject.toml."""

import os
import sysconfig
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup

DEBUG = os.environ.get("ROOTMIND_DEBUG") == "1"
# Coverage counts what ran under the sanitizers, for .ci/sanitized.py.
SANITIZE = ["-g", "-O1", "-fsanitize=address,undefined", "--coverage"] if DEBUG else []
# Python's own flags may ask for debug symbols, which take most of the space, and time to write.
COMPILE = SANITIZE or ([] if os.name == "nt" else ["-g0"])
# For what compilers have to vectorise. In `layers`, nothing asks whether an operation was invalid,
# which else keeps loops with a choice or a square root in them from it.
NO_QUESTIONS = ["-fno-trapping-math", "-fno-math-errno"]
VECTORISE = {"layers": ["-O3", *NO_QUESTIONS], "simd": ["-O3"]} if os.name != "nt" else {}
SOURCES = Path("cython_src")
# In every module of the kernel: it refuses compilers that may change arithmetic.
INCLUDE_IEEE = ["/FIieee.h"] if os.name == "nt" else ["-include", "ieee.h"]
# Code that Cython would otherwise put into each module: memoryviews, above all.
UTILITY = "spacy_rootmind.kernel.cython_utility"
HEADERS = [str(path) for path in sorted([*SOURCES.glob("*.h"), SOURCES / "weights.pxd"])]

extensions = [
    Extension(
        f"spacy_rootmind.kernel.{source.stem}",
        [str(source)],
        depends=HEADERS,
        include_dirs=[str(SOURCES)],
        extra_compile_args=INCLUDE_IEEE + VECTORISE.get(source.stem, []) + COMPILE,
        extra_link_args=SANITIZE,
    )
    for source in sorted(SOURCES.glob("*.pyx"))
    if source.stem != "doc_trees"
]
# The one module that touches spaCy's own memory; its headers are C++ and use NumPy's. There is no
# spaCy for Python without its global lock, where arrays work alone.
if not sysconfig.get_config_var("Py_GIL_DISABLED"):
    extensions.append(
        Extension(
            "spacy_rootmind.annotation.doc_trees",
            [str(SOURCES / "doc_trees.pyx")],
            include_dirs=[numpy.get_include()],
            define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
            extra_compile_args=COMPILE,
            extra_link_args=SANITIZE,
            language="c++",
        )
    )

# Cython writes its source.
extensions.append(
    Extension(
        UTILITY,
        [str(SOURCES / "cython_utility.c")],
        extra_compile_args=COMPILE,
        extra_link_args=SANITIZE,
    )
)

# Cython's processes read this file again on systems that do not fork.
if __name__ == "__main__":
    setup(
        options={"build_ext": {"parallel": os.cpu_count()}},
        ext_modules=cythonize(
            extensions,
            shared_utility_qualified_name=UTILITY,
            build_dir="build/cython",
            nthreads=min(os.cpu_count() or 1, len(extensions)),
            include_path=[".", str(SOURCES)],
            compiler_directives={
                "language_level": 3,
                "boundscheck": DEBUG,
                "wraparound": DEBUG,
                "initializedcheck": DEBUG,
                "cdivision": True,
                "auto_pickle": False,
                "freethreading_compatible": True,
                "emit_code_comments": DEBUG,
            },
        ),
    )
