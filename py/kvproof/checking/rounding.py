"""What rounding may do: the one rule that all stages of the checker hold differences against.

Two right ways to compute the same logits, such as ``full`` and a cache fed in chunks, add the same
numbers in different orders.  Each addition rounds by ``eps`` of what it adds; the orders depend on
the shape of a call, the processor, the library and the threads.  So the rule doesn't rest on what
one machine was seen to do.  It has two levels, both shares of the largest logit.

- ``allowed``: up to here a difference is rounding.
- ``doubtful``: up to here it may be, if attention is very sharp.  The softmax turns an error of a
  score into a relative error of a weight, and scores grow with the square of the weights: where two
  keys nearly tie, little becomes much, at few positions and only there.  Without the weights nobody
  can tell in advance.  A difference in between is a finding that says: see float64.

Why it holds: the zoo's right decoders under five kernels of OpenBLAS that add in different orders,
all cases of a check, in float32.  In units of ``eps * largest logit`` they are off by at most 4
with weights as drawn, 30 with those times 3 (the zoo's), 400 times 10, 3,100 times 20 and 20,000
times 40.  ``python build.py kernels --right 20`` asks again what comes of it.

- float64 allows 2**22 units, far beyond all that, and still only 1e-9 of a logit: no mistake of a
  cache is so small.  So nothing is doubtful.
- float32 allows 2**8 units, 3e-5 of a logit; 2**17 units, 1.6%, are doubtful.
- 16 bits allow 16 units (float16) or 8 (bfloat16).  All beyond is doubtful: 2**17 units are more
  than any logit.  But see the next.
- A cache that is declared to round has 8 bits or fewer, whatever the logits are in, so the size of
  an error says nothing.  But the right ones are off at few positions: in the cases that fail, at no
  more than 35% with weights times 40.  Where most positions are off, there is no doubt.  Nor is
  there where one sequence was right however it was fed, and then a logit is off by more than any of
  them moves over a text: right caches of 8 bits came to half of that.

``full`` is held against itself by the same rule, in other shapes.  What it is off by there is its
noise, and a cache may be off by ``NOISE_FACTOR`` times that where it is more than what is allowed.
"""

from dataclasses import dataclass

from kvproof.checking.messages import Message

EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""Precisions, the finest first, and the distance from 1 to the next number."""
UNITS = {"float64": 2**22, "float32": 2**8, "float16": 16, "bfloat16": 8}
"""Of ``eps * largest logit``: what is allowed."""
MOST = 0.5
"""Of the positions in failing cases: rounding has moved at most 35% beyond what is allowed."""
CLEARLY = 8
"""So many times the largest tolerance that there may be is no rounding, in 16 bits or of a cache,
where every chunking of one sequence was right."""
SHARP_UNITS = 2**17
"""What very sharp attention may round by."""
NOISE_FACTOR = 10
"""A cache adds in other orders than ``full`` does with itself, so it may be off by more."""


@dataclass(frozen=True)
class Rounding:
    """What logits of a precision, the largest of which is ``scale``, may be off by."""

    dtype: str
    scale: float

    @property
    def allowed(self) -> float:
        """Up to here a difference is rounding."""
        return UNITS[self.dtype] * EPS[self.dtype] * self.scale

    @property
    def doubtful(self) -> float:
        """Up to here it may be; never less than what is allowed."""
        return max(SHARP_UNITS * EPS[self.dtype] * self.scale, self.allowed)

    def tolerance(self, noise: float) -> float:
        """What a cache may be off by, where ``full`` is off from itself by ``noise``."""
        return max(self.allowed, NOISE_FACTOR * noise)

    def doubt(self, error: float) -> Message | None:
        """What to say if a difference beyond the tolerance may still be rounding."""
        if self.dtype == "float64" or not 0 < error <= self.doubtful:
            return None
        return Message("note.sharp", dtype=self.dtype)
