"""A mask for any P and C

P tokens are in the cache, C new ones are fed in one call. Change the two numbers and run the cell
again: the wrong mask differs from the right one by a missing P.
"""

import numpy as np

P, C = 4, 2  # history, chunk

keys = np.arange(P + C)
rows = np.arange(C)[:, None]
offset = keys <= P + rows  # row i stands at position P + i
top_left = keys <= rows  # the same triangle, pinned to the top left corner

for name, mask in {"offset": offset, "top-left": top_left}.items():
    print(f"{name} mask")
    marks = np.where(mask, "1", np.where(offset, "x", "."))
    for position, line in enumerate(marks, start=P):
        print(f"  query {position:<3}", *line)
print("1 may attend   . hidden future   x wrongly hidden")

n_open, n_hidden = offset.sum(), (offset & ~top_left).sum()
n_leaked = (top_left & ~offset).sum()
closed_form = P * C + C * (C + 1) // 2
print(f"\noffset opens {n_open} cells: P*C + C(C+1)/2 = {closed_form}")
print(f"top-left hides {n_hidden} of them: P*C = {P * C}")
print(f"top-left opens {n_leaked} others: it forgets, it doesn't leak")
