"""Our decoder in SuPar.

`install()` replaces `supar.structs.fn.mst`.
`uninstall()` restores it. Both may be called repeatedly.
"""

from spacy_rootmind.bridges.replacement import Replacement
from spacy_rootmind.bridges.tensors import decode_batch

_MODULE = "supar.structs.fn"
_REPLACEMENT = Replacement(_MODULE, "mst", decode_batch)

install = _REPLACEMENT.install
uninstall = _REPLACEMENT.uninstall
