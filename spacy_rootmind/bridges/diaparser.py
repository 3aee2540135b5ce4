"""Our decoder of non-projective trees in DiaParser.

`install()` replaces `diaparser.utils.alg.mst`, `uninstall()` puts it back. Both may be repeated.
"""

from spacy_rootmind.bridges.tensors import decode_batch
from spacy_rootmind.bridges.replacement import Replacement

_REPLACEMENT = Replacement("diaparser.utils.alg", "mst", decode_batch)

install = _REPLACEMENT.install
uninstall = _REPLACEMENT.uninstall
