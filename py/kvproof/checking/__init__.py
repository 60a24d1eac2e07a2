"""The checker for anybody's cached decoder."""

from kvproof.checking.checker import assert_cache_matches, check
from kvproof.checking.report import Alternative, Finding, Report
from kvproof.kinds import KINDS, UNKNOWN, Kind

__all__ = [
    "KINDS",
    "UNKNOWN",
    "Alternative",
    "Finding",
    "Kind",
    "Report",
    "assert_cache_matches",
    "check",
]
