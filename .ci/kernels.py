"""The README's tests with the kernels of other processors, if this one can run them.

    python .ci/kernels.py [OPTION OF PYTEST...]

OpenBLAS (for NumPy) and BLIS (for Thinc) multiply matrices, and NumPy and this package have loops
over arrays. Each of the four chooses its instructions at run time. Needs Linux on x86-64, and gcc.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

# BLIS in Thinc reads no variable. This replaces its question to the processor.
CHOOSE_BLIS = '#include <stdlib.h>\nint bli_cpuid_query_id(void) { return atoi(getenv("%s")); }\n'
BLIS = "ROOTMIND_BLIS"
VERBOSE = {"OPENBLAS_VERBOSE": "2", "BLIS_ARCH_DEBUG": "1"}
MULTIPLY = "from thinc.api import NumpyOps; a = NumpyOps().alloc2f(9, 9); NumpyOps().gemm(a, a @ a)"
# Features of processors as NumPy names them: from 2.4 on, after the levels of x86-64.
AVX512, AVX2 = "AVX512|V4", "AVX2|V3"


class Kernels(NamedTuple):
    """Variables that choose kernels, and what OpenBLAS and BLIS then report."""

    needs: str
    numpy_without: str
    reported: str
    variables: dict[str, str]


# OpenBLAS in NumPy's wheels has no kernels of its own for Zen, and takes those for Haswell.
HASWELL = {"OPENBLAS_CORETYPE": "Haswell", BLIS: "3"}
PRESCOTT = {"OPENBLAS_CORETYPE": "Prescott", BLIS: "20", "ROOTMIND_PORTABLE": "1"}
KERNELS = {
    "AVX-512": Kernels(AVX512, "^$", "SkylakeX skx", {"OPENBLAS_CORETYPE": "SkylakeX", BLIS: "0"}),
    "AVX2": Kernels(AVX2, AVX512, "Haswell haswell", HASWELL),
    "AVX2, two threads": Kernels(
        AVX2, AVX512, "Haswell haswell", {**HASWELL, "OPENBLAS_NUM_THREADS": "2"}
    ),
    "SSE3": Kernels("", "", "Katmai generic", PRESCOTT),
}


def environment(kernels: Kernels, preload: Path) -> dict[str, str]:
    """Return the variables for the tests, once the libraries have reported the expected kernels."""
    without = [name for name in features() if re.search(kernels.numpy_without, name)]
    env = {**os.environ, **kernels.variables, "LD_PRELOAD": str(preload)}
    env["NPY_DISABLE_CPU_FEATURES"] = " ".join(without)
    multiply = [sys.executable, "-c", MULTIPLY]
    printed = subprocess.run(
        multiply, env={**env, **VERBOSE}, capture_output=True, text=True, check=True
    )
    reported = re.findall(r"Core: (\w+)|sub-configuration '(\w+)'", printed.stderr)
    if " ".join(map("".join, reported)) != kernels.reported:
        sys.exit(f"expected the kernels {kernels.reported}\n{printed.stderr}")
    return env


def features() -> list[str]:
    """List what this processor has above NumPy's baseline."""
    return np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])


def main() -> None:
    """Run the tests once for each kind of kernels."""
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        preload = Path(folder) / "blis.so"
        compile_it = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(preload)]
        subprocess.run(compile_it, input=CHOOSE_BLIS % BLIS, text=True, check=True)
        for name, kernels in KERNELS.items():
            if not re.search(kernels.needs, " ".join(features())):
                print(f"{name}: this processor has none", flush=True)
                continue
            env = environment(kernels, preload)
            print(f"{name}:", flush=True)
            pytest = [sys.executable, "-m", "pytest", "-q", *sys.argv[1:]]
            if subprocess.run(pytest, env=env, check=False).returncode:
                failed.append(name)
    sys.exit(f"failed: {failed}" if failed else 0)


if __name__ == "__main__":
    main()
