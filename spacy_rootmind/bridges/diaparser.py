"""Our decoder in DiaParser.

`install()` puts it in place of `diaparser.utils.alg.mst`,
`uninstall()` puts that back. Both may be repeated.
"""

from spacy_rootmind.bridges.replacement import Replacement
from spacy_rootmind.bridges.tensors import decode_batch

_MODULE = "diaparser.utils.alg"
_REPLACEMENT = Replacement(_MODULE, "mst", decode_batch)

install = _REPLACEMENT.install
uninstall = _REPLACEMENT.uninstall
