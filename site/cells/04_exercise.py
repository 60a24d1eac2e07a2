"""Exercise: ten cached, three new

Ten tokens are in the cache and three new ones come in one call. Put your answers in place of the
dots and run the cell.
"""

from kvlab import exercise

positions = ...  # where the three new tokens stand, such as [0, 1, 2]
score_shape = ...  # rows and columns of one head's scores, such as [3, 3]
keys_read = ...  # how many keys each query may read, such as [1, 1, 1]
top_left_keys = ...  # and how many the top-left triangle would open

exercise.check(
    positions=positions,
    score_shape=score_shape,
    keys_read=keys_read,
    top_left_keys=top_left_keys,
)
# exercise.answer()  # delete the first "#" and run again to see the answers
