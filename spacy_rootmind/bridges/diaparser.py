"""Our decoder in DiaParser.

`install()` replaces `diaparser.utils.alg.mst`.
`uninstall()` restores it. Both may be called repeatedly.
"""

from spacy_rootmind.bridges.replacement import Replacement
from spacy_rootmind.bridges.tensors import decode_batch

_MODULE = "diaparser.utils.alg"
_REPLACEMENT = Replacement(_MODULE, "mst", decode_batch)

install = _REPLACEMENT.install
uninstall = _REPLACEMENT.uninstall
