"""Names of the mistakes that people make with KV caches.

The taxonomy of the zoo (``kvproof.zoo``), and what the checker (``kvproof.checking``) names; what
each kind means stands in the checker's catalogues, by its name (``kind.POS-RESET``).
"""

from enum import StrEnum


class Kind(StrEnum):
    """A kind of mistake, equal to its name: ``Kind.ALIAS == "ALIAS"``."""

    POS_RESET = "POS-RESET"
    POS_DRIFT = "POS-DRIFT"
    POS_PERROW = "POS-PERROW"
    ROPE_FRAME = "ROPE-FRAME"
    ROPE_LEN = "ROPE-LEN"
    BIAS_LEN = "BIAS-LEN"
    MASK_TOPLEFT = "MASK-TOPLEFT"
    MASK_SKIPPED = "MASK-SKIPPED"
    SELF_READ = "SELF-READ"
    SLOT_WRITE = "SLOT-WRITE"
    SLOT_STALE = "SLOT-STALE"
    WINDOW_OBO = "WINDOW-OBO"
    WINDOW_PHASE = "WINDOW-PHASE"
    RING_ORDER = "RING-ORDER"
    PAD_MASK = "PAD-MASK"
    MASK_VALUE = "MASK-VALUE"
    LAYER_MIX = "LAYER-MIX"
    HEAD_MAP = "HEAD-MAP"
    KV_LAYOUT = "KV-LAYOUT"
    ROW_PERM = "ROW-PERM"
    ALIAS = "ALIAS"
    ROLLBACK = "ROLLBACK"
    DUP_APPEND = "DUP-APPEND"
    PAGE_MAP = "PAGE-MAP"
    REUSE_KEY = "REUSE-KEY"
    QUANT_SCALE = "QUANT-SCALE"
    LOGIT_SHIFT = "LOGIT-SHIFT"
    UNKNOWN = "UNKNOWN"
    """What has no name: above all a decoder that does not do what the contract says."""


UNKNOWN = Kind.UNKNOWN
KINDS = tuple(kind for kind in Kind if kind is not UNKNOWN)
"""All kinds of cache bugs that were found in public reports."""
