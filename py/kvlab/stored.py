"""Results from elsewhere, for labs that show them beside what they compute.

The browser's archive has a folder ``stored`` beside this module; so has the build, in another of
the folders that this namespace package is made of (see ``kvsite.wasm.write_stored``).
"""

from pathlib import Path

import kvlab

RESULTS = Path(__file__).parents[2] / "notebooks" / "results"
"""Where the measured ones are kept: they are read from there outside of a build."""


def load_stored(name: str) -> str | None:
    """The text of a stored file; None if there is none of that name."""
    places = [*(Path(folder) / "stored" for folder in kvlab.__path__), RESULTS]
    found = (folder / name for folder in places if (folder / name).is_file())
    return next((path.read_text() for path in found), None)
