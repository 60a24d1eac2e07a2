"""The trained decoder: its configuration, and its weights as they are stored beside this file.

``python build.py train`` has written them: float16, by the names of ``kvproof.params_to_arrays``.
"""

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from kvproof.model.config import REFERENCE, DecoderConfig
from kvproof.model.params import FloatArray, Params, params_from_arrays
from kvproof.model.precision import ROUND, precision_name, round_params
from kvproof.story.words import WORDS

WEIGHTS = Path(__file__).with_name("weights.npz")

STORY = replace(REFERENCE, vocab_size=len(WORDS), max_positions=80)
"""The reference's two layers, with the story's words and no positions beyond the trained ones."""


def load_story_decoder(
    dtype: DTypeLike = "float32", path: Path = WEIGHTS
) -> tuple[Params, DecoderConfig]:
    """The trained decoder's parameters and its configuration.

    Args:
        dtype: "float64", "float32", "float16" or "bfloat16" (``kvproof.round_params``).  The stored
            numbers are float16: all but bfloat16 hold them exactly.
        path: another file of weights.

    Raises:
        ValueError: another dtype, or the file can't be read or holds something else.

    Example:
        >>> params, config = kvproof.story.load_story_decoder()
        >>> text = "The key is in the box. Leo is in the jar. Where's my key? In the"
        >>> logits = kvproof.forward(params, [kvproof.story.encode(text)], config)
        >>> kvproof.story.render([logits[0, -1].argmax()])
        'box.'
    """
    precision = precision_name(dtype)
    try:
        with path.open("rb") as file, np.load(file) as stored:
            arrays: dict[str, FloatArray] = {
                name: stored[name].astype("float32" if precision in ROUND else precision)
                for name in stored.files
            }
        params = params_from_arrays(arrays, STORY)
    except (OSError, EOFError, ValueError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"the story's decoder can't be read from {path}: {error}. Install kvproof anew, or "
            f"let `python build.py train` write it in the repository"
        ) from error
    return (round_params(params, STORY, precision) if precision in ROUND else params), STORY
