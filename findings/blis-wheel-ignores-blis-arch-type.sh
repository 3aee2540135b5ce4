#!/usr/bin/env bash
# blis 1.3.4 (the wheel that Thinc and spaCy multiply matrices with): BLIS_ARCH_TYPE, BLIS's documented
# variable for choosing the kernels of another processor, is ignored without a message. BLIS_ARCH_DEBUG
# works, and shows that the same kernels are chosen whatever the other says: the variable's name is not in
# the compiled library. Somebody who sets it to compare or to reproduce results compares a kernel with
# itself.
#
# Output seen on 2026-11-28 (x86-64; which kernels are chosen depends on the processor):
#   blis 1.3.4
#   BLIS_ARCH_TYPE unset: libblis: selecting sub-configuration 'generic'.
#   BLIS_ARCH_TYPE generic: libblis: selecting sub-configuration 'generic'.
#   BLIS_ARCH_TYPE haswell: libblis: selecting sub-configuration 'generic'.
#   BLIS_ARCH_TYPE not-a-kernel: libblis: selecting sub-configuration 'generic'.
#   the library names: BLIS_ARCH_DEBUG
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check blis==1.3.4
echo "blis $("$work/venv/bin/python" -c 'from importlib.metadata import version; print(version("blis"))')"
multiply='
import numpy
from blis.py import gemm

ones = numpy.ones((4, 4), dtype="float32")
gemm(ones, ones)
'
chosen=()
for kind in unset generic haswell not-a-kernel; do
    variables=(BLIS_ARCH_DEBUG=1)
    [ "$kind" = unset ] || variables+=("BLIS_ARCH_TYPE=$kind")
    found=$(env "${variables[@]}" "$work/venv/bin/python" -c "$multiply" 2>&1)
    echo "BLIS_ARCH_TYPE $kind: $found"
    chosen+=("$found")
done
for found in "${chosen[@]}"; do
    [ "$found" = "${chosen[0]}" ] || { echo "the behaviour has changed"; exit 1; }
done
names=$(cat "$work"/venv/lib/python*/site-packages/blis/cy*.so "$work"/venv/lib/python*/site-packages/blis/py*.so \
    | grep -a -o 'BLIS_ARCH_[A-Z]*' | sort -u | tr '\n' ' ')
echo "the library names: $names"
case $names in *BLIS_ARCH_TYPE*) echo "the behaviour has changed"; exit 1 ;; esac
