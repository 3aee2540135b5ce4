"""Our decoder in Stanza.

`install()` replaces `stanza.models.common.chuliu_edmonds.chuliu_edmonds_one_root`.
`uninstall()` restores it. Both may be called repeatedly.
"""

from spacy_rootmind.bridges.arrays import decode_sentence
from spacy_rootmind.bridges.replacement import Replacement

_MODULE = "stanza.models.common.chuliu_edmonds"
_REPLACEMENT = Replacement(_MODULE, "chuliu_edmonds_one_root", decode_sentence)

install = _REPLACEMENT.install
uninstall = _REPLACEMENT.uninstall
