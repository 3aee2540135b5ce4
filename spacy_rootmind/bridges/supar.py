"""Our decoder in SuPar.

`install()` puts it in place of `supar.structs.fn.mst`,
`uninstall()` puts that back. Both may be repeated.
"""

from spacy_rootmind.bridges.replacement import Replacement
from spacy_rootmind.bridges.tensors import decode_batch

_MODULE = "supar.structs.fn"
_REPLACEMENT = Replacement(_MODULE, "mst", decode_batch)

install = _REPLACEMENT.install
uninstall = _REPLACEMENT.uninstall
