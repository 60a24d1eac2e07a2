"""The story of the first screen: the end of it is a prompt for any history and chunk."""

from kvproof.model.masks import check_integer
from kvproof.story.words import encode

EXAMPLE = (
    "The hat is in the basket. The key is in the pot. Max likes milk. Mia is in the drawer. "
    "Zoe is in the attic. Where's Zoe? In the attic. "
    "Ivy is in the tent. The key fell in the cave. It rains. Where's my key? In the"
)
"""48 words; of 13 or more the last ones tell where the key is, and of 18 they begin a sentence."""


def example_story(n_words: int) -> list[int]:
    """The tokens of the last ``n_words`` of ``EXAMPLE``: a longer text begins earlier.

    All of them end with the same question, so that every history length and chunk size asks for
    the same place.

    Raises:
        ValueError: ``n_words`` isn't 1 to 48.

    Example:
        >>> kvproof.story.render(kvproof.story.example_story(7))
        "It rains. Where's my key? In the"
    """
    tokens = encode(EXAMPLE)
    if not 1 <= check_integer("n_words", n_words) <= len(tokens):
        raise ValueError(f"n_words must be 1..{len(tokens)}, got {n_words}")
    return tokens[-n_words:]
