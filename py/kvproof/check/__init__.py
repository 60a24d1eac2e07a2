"""The checker for anybody's cached decoder."""

from kvproof.check.checker import assert_cache_matches, check
from kvproof.check.kinds import KINDS, UNKNOWN
from kvproof.check.report import Alternative, Finding, Report

__all__ = ["KINDS", "UNKNOWN", "Alternative", "Finding", "Report", "assert_cache_matches", "check"]
