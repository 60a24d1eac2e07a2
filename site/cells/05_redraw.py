"""Your own mask, drawn by the labs

Change the rule, run the cell and scroll up: the mask lab and the blind-spot map show it in the
reference decoder, for any P and C, against the right mask. The checker's report below asks
something else, whether calls after a history agree with one pass under your own rule; so it can
say right where the labs show errors. A decoder with full and step can be drawn as well.
"""

import numpy as np

from kvlab.candidate import draw


def mask(n_past, n_new):  # bool (n_new, n_past + n_new), True = may attend
    query = n_past + np.arange(n_new)[:, None]
    key = np.arange(n_past + n_new)
    return (key <= query) & (key > query - 3)  # the last three tokens only


draw(mask)
