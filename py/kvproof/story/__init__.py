"""A small trained decoder that reads little stories and says where things are.

Its words, the stories, what is grammatical, and the decoder with its stored weights.  The random
decoders of ``kvproof`` have nothing to forget; this one has.
"""

from kvproof.story.decoder import STORY, load_story_decoder
from kvproof.story.example import EXAMPLE, example_story
from kvproof.story.grammar import Question, Story, is_grammatical, tell_story
from kvproof.story.words import LANGUAGES, WORDS, Word, encode, labels, render

__all__ = [
    "EXAMPLE",
    "LANGUAGES",
    "STORY",
    "WORDS",
    "Question",
    "Story",
    "Word",
    "encode",
    "example_story",
    "is_grammatical",
    "labels",
    "load_story_decoder",
    "render",
    "tell_story",
]
