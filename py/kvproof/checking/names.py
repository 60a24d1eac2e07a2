"""Names of what the checker does: its stages, checks and cases.  An unknown one raises."""

from enum import StrEnum

from kvproof.checking.messages import Message


class Stage(StrEnum):
    """A group of cases; one whose predecessor fails isn't run."""

    FEEDING = "feeding"
    BATCH = "batch"
    PADDING = "padding"
    OPERATIONS = "operations"
    SECOND_USE = "second-use"

    @property
    def message(self) -> Message:
        """What it does, in words."""
        return Message(f"stage.{self}")


class Check(StrEnum):
    """What a finding was found by."""

    LOG = "LOG"
    """Logits of one sequence."""
    KVL = "KVL"
    """Stored keys and values."""
    MSK = "MSK"
    """Which token moves which row."""
    BOOK = "BOOK"
    """The counted length."""
    ROW = "ROW"
    """Rows of a batch."""
    OPS = "OPS"
    """Crop, fork, reorder."""
    REP = "REP"
    """The same once more."""
    GOLD = "GOLD"
    """Another implementation."""
    OLD = "OLD"
    """A cache that goes on after a copy of it did."""
    CAU = "CAU"
    """No token moves an earlier one."""
    PFX = "PFX"
    """A prefix has the logits of the whole."""
    TOL = "TOL"
    """The budget of a cache that rounds."""


class CaseId(StrEnum):
    """A case of the battery; the part before a dot is the group that its title begins with."""

    ONE_CALL = "one-call"
    ONE_BY_ONE = "one-by-one"
    PREFILL_ONE_BY_ONE = "prefill-one-by-one"
    PAIRS = "pairs"
    PREFILL_PAIRS = "prefill-pairs"
    RAGGED = "ragged"
    PREFILL_THREE_ONE_BY_ONE = "prefill-three-one-by-one"
    WINDOW_ONE_BY_ONE = "window-one-by-one"
    WINDOW_PAIRS = "window-pairs"
    LONGER_THAN_WINDOW = "longer-than-window"
    WHOLE_BLOCKS = "whole-blocks"
    BLOCK_ONE_BY_ONE = "block-one-by-one"
    ONE_MORE_THAN_BLOCK = "one-more-than-block"
    LONG_CHUNKS = "long-chunks"
    POWERS_OF_TWO = "powers-of-two"
    LAST_SLOT = "last-slot"
    CAPACITY = "capacity"
    BEYOND_CAPACITY = "beyond-capacity"

    ROWS_ONE_BY_ONE = "rows.one-by-one"
    ROWS_PREFILL_ONE_BY_ONE = "rows.prefill-one-by-one"
    ROWS_RAGGED = "rows.ragged"
    ROWS_WHOLE_BLOCKS = "rows.whole-blocks"

    PADDING_ONE_CALL = "padding.one-call"
    PADDING_ONE_BY_ONE = "padding.then-one-by-one"
    PADDING_PAIRS = "padding.then-pairs"

    CROP_THREE = "crop-three"
    CROP_ONE = "crop-one"
    CROP_NOTHING = "crop-nothing"
    CROP_EVERYTHING = "crop-everything"
    CROP_TWICE = "crop-twice"
    FORK_FIRST = "fork-first"
    FORK_BOTH = "fork-both"
    FORK_TWICE = "fork-twice"
    BRANCH = "branch"
    REORDER_DUPLICATES = "reorder-duplicates"
    REORDER_PERMUTES = "reorder-permutes"
    REORDER_NOTHING = "reorder-nothing"
    REORDER_FEWER = "reorder-fewer"
    REORDER_TWICE = "reorder-twice"
    REORDER_CROP = "reorder-crop"
    FORK_ROWS = "fork-rows"
    FORK_REORDER = "fork-reorder"
    FORK_CROP_SECOND = "fork-crop-second"
    FORK_CROP_FIRST = "fork-crop-first"
    CROP_KEEP = "crop-keep"
    REORDER_KEEP = "reorder-keep"
    PADDING_REORDER = "padding-reorder"
    PADDING_CROP = "padding-crop"
    PADDING_FORK = "padding-fork"
    WINDOW_REORDER = "window-reorder"
    WINDOW_CROP = "window-crop"
    WINDOW_FORK = "window-fork"
    WINDOW_CROP_SHORT = "window-crop-short"
    BLOCK_REORDER = "block-reorder"
    BLOCK_CROP = "block-crop"
    BLOCK_FORK = "block-fork"
    BLOCKS_FORK_CROP = "blocks-fork-crop"

    OTHER_TEXT = "second.other-text"
    SAME_START = "second.same-start"
    SAME_TEXT = "second.same-text"
    OTHER_FIRST_TOKEN = "second.other-first-token"
    SAME_END = "second.same-end"
    SHORTER_TEXT = "second.shorter-text"
    START_OF_FIRST = "second.start-of-first"
    IN_TURNS = "second.in-turns"
    MORE_ROWS = "second.more-rows"
    FEWER_ROWS = "second.fewer-rows"
    ROWS_BESIDE = "second.rows-beside"
    AFTER_CROP = "second.after-crop"
    AFTER_REORDER = "second.after-reorder"
    OTHER_PADDING = "second.other-padding"
    NO_PADDING = "second.no-padding"
    NO_LENGTHS = "second.no-lengths"
    PADDED_TURNS = "second.padded-turns"

    @property
    def message(self) -> Message:
        """In words."""
        group = self.rpartition(".")[0]
        return Message(f"case.{group}", what=self.short_message) if group else self.short_message

    @property
    def short_message(self) -> Message:
        """The same without its group."""
        return Message(f"case.{self.rpartition('.')[2]}")

    @property
    def ends_the_cache(self) -> bool:
        """Its text goes to the end of the cache."""
        return self in (CaseId.LAST_SLOT, CaseId.CAPACITY, CaseId.BEYOND_CAPACITY)

    @property
    def is_long(self) -> bool:
        """Its text is longer than those of the others."""
        return self.ends_the_cache or self in (CaseId.LONG_CHUNKS, CaseId.POWERS_OF_TWO)
