"""The checker's texts in Traditional Chinese, made from the Simplified ones and committed.

The core has them without OpenCC.  To write them anew:
``PYTHONPATH=py .venv/bin/python -m kvsite.checker_texts``.
"""

from kvproof.checking.messages import TEXTS
from kvsite.languages import LANGUAGES

HANS, HANT = (TEXTS / f"{name}.toml" for name in ("zh-hans", "zh-hant"))


def traditional_texts() -> str:
    """What has to stand in the file."""
    *_, traditional = LANGUAGES
    written = traditional.from_source(HANS.read_text("utf-8"))
    return written.replace(
        "Simplified Chinese", "Traditional Chinese, made by kvsite.checker_texts"
    )


if __name__ == "__main__":
    HANT.write_text(traditional_texts(), encoding="utf-8")
