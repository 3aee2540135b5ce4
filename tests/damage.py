"""Files with bytes changed here and there."""


def damaged(rng, blocks, share):
    """Change, drop or insert bytes in some blocks; returns data and the untouched blocks."""
    parts, whole = [], []
    for block in blocks:
        if rng.random() >= share:
            parts.append(block)
            whole.append(block)
            continue
        changed = bytearray(block)
        for _ in range(rng.choice([1, 1, 2, 20])):
            place = rng.randrange(len(changed))
            # Line ends would make blocks of one, or one of two.
            new = rng.choice([b for b in range(256) if b not in b"\n\r"])
            how = rng.randrange(3)
            if how == 0 and changed[place] != 10:
                changed[place] = new
            elif how == 1 and changed[place] != 10 and len(changed) > 1:
                del changed[place]
            else:
                changed.insert(place, new)
        parts.append(bytes(changed))
    return parts, whole
