"""Our decoder in HOPS.

`install()` replaces `hopsparser.mst.chuliu_edmonds_one_root`, `uninstall()` puts it back. Both may be repeated.
"""

from spacy_rootmind.bridges.arrays import decode_sentence
from spacy_rootmind.bridges.replacement import Replacement

_REPLACEMENT = Replacement("hopsparser.mst", "chuliu_edmonds_one_root", decode_sentence)

install = _REPLACEMENT.install
uninstall = _REPLACEMENT.uninstall
