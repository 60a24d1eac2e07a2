"""Interrupts what takes too long, where there are alarms."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from kvproof.checking.subject import OutOfTime

LONGEST_ALARM = 1e8
"""Seconds, some years: systems refuse alarms that are much later."""


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Interrupt a call that hangs, where there are alarms; elsewhere time is up between calls."""
    usable = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not usable:
        yield
        return

    def ring(_signum: int, _frame: FrameType | None) -> None:
        raise OutOfTime

    start = time.monotonic()
    before = signal.signal(signal.SIGALRM, ring)
    left = interval = 0.0  # of somebody else's alarm
    try:  # in two steps: it may ring while it is being taken back
        try:
            left, interval = signal.setitimer(signal.ITIMER_REAL, min(seconds, LONGEST_ALARM))
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
        if left:
            rest = left - (time.monotonic() - start)
            signal.setitimer(signal.ITIMER_REAL, max(rest, 1e-6), interval)
