"""Names of the mistakes that people make with KV caches, and what each means."""

KINDS = {
    "POS-RESET": "the positions of a new chunk restart at 0",
    "POS-DRIFT": "the position counter moves by the wrong amount, or is read from the wrong place",
    "POS-PERROW": "all rows share one position although they have different amounts of padding",
    "ROPE-FRAME": "cached keys are rotated in one frame and queried in another",
    "ROPE-LEN": "the rotation depends on the length of the whole text; old keys keep the old one",
    "BIAS-LEN": "a distance bias is built over the new tokens instead of over all keys",
    "MASK-TOPLEFT": "the causal mask is pinned to the top left corner and hides the past",
    "MASK-SKIPPED": "no causal mask inside a chunk: a token sees its own future",
    "SELF-READ": "a token does not see itself, or the chunk it came with",
    "SLOT-WRITE": "keys and values go into the wrong slot, or into none",
    "SLOT-STALE": "slots with zeros or with an earlier request are visible",
    "WINDOW-OBO": "the window is one token too long or too short in one of the two paths",
    "WINDOW-PHASE": "the window is ignored, or counted from the wrong token, in one phase",
    "RING-ORDER": "a rolling buffer loses, reorders or overwrites keys that are still needed",
    "PAD-MASK": "padding is attended to",
    "MASK-VALUE": "the mask's numbers are wrong: added as 0 and 1, too small, or all -inf in a row",
    "LAYER-MIX": "a layer reads another layer's cache",
    "HEAD-MAP": "query heads read the wrong key and value heads",
    "KV-LAYOUT": "keys and values are mixed up, or read with the wrong strides",
    "ROW-PERM": "the rows of the cache are not permuted as the beams are",
    "ALIAS": "two caches share memory that one of them writes",
    "ROLLBACK": "taking tokens back removes too many, too few, or only moves a counter",
    "DUP-APPEND": "the last token is fed a second time without being taken out first",
    "PAGE-MAP": "a block table points to the wrong block",
    "REUSE-KEY": "a stored prefix is found by a key that does not say all that it depends on",
    "QUANT-SCALE": "quantised numbers are read with another scale than they were written with",
    "LOGIT-SHIFT": "logits are read one position off",
}

UNKNOWN = "UNKNOWN"
