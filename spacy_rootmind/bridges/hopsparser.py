"""Our decoder in HOPS.

`install()` puts it in place of `hopsparser.mst.chuliu_edmonds_one_root`,
`uninstall()` puts that back. Both may be repeated.
"""

from spacy_rootmind.bridges.arrays import decode_sentence
from spacy_rootmind.bridges.replacement import Replacement

_MODULE = "hopsparser.mst"
_REPLACEMENT = Replacement(_MODULE, "chuliu_edmonds_one_root", decode_sentence)

install = _REPLACEMENT.install
uninstall = _REPLACEMENT.uninstall
