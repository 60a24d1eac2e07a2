"""The checker for anybody's cached decoder."""

from kvproof.checking.checker import assert_cache_matches, check
from kvproof.checking.kinds import KINDS, UNKNOWN
from kvproof.checking.report import Alternative, Finding, Report

__all__ = ["KINDS", "UNKNOWN", "Alternative", "Finding", "Report", "assert_cache_matches", "check"]
