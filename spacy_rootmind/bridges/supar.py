"""Our decoder of non-projective trees in SuPar.

`install()` replaces `supar.structs.fn.mst`, `uninstall()` puts it back. Both may be repeated.
"""

from spacy_rootmind.bridges.tensors import decode_batch
from spacy_rootmind.bridges.replacement import Replacement

_REPLACEMENT = Replacement("supar.structs.fn", "mst", decode_batch)

install = _REPLACEMENT.install
uninstall = _REPLACEMENT.uninstall
