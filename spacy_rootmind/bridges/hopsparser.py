"""Our decoder in HOPS.

`install()` replaces `hopsparser.mst.chuliu_edmonds_one_root`.
`uninstall()` restores it. Both may be called repeatedly.
"""

from spacy_rootmind.bridges.arrays import decode_sentence
from spacy_rootmind.bridges.replacement import Replacement

_MODULE = "hopsparser.mst"
_REPLACEMENT = Replacement(_MODULE, "chuliu_edmonds_one_root", decode_sentence)

install = _REPLACEMENT.install
uninstall = _REPLACEMENT.uninstall
