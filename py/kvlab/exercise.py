"""The reader's exercise: ten tokens in the cache, three new ones in one call.

It speaks the language of ``KVPROOF_LANGUAGE``, as reports of the checker do.
"""

import os
from types import EllipsisType

import numpy as np
from numpy.typing import ArrayLike

from kvproof import offset_mask, offset_positions, top_left_mask
from kvproof.checking.report import LANGUAGE

N_PAST, N_NEW = 10, 3

TEXTS = {
    "en": {
        "unanswered": "no answer yet",
        "right": "right",
        "wrong": "wrong: {hint}",
        "answer": "{answer}: {reason}",
        "hint.positions": f"the cache already holds positions 0 to {N_PAST - 1}",
        "hint.score_shape": "a row for each new query, a column for each key, cached or new",
        "hint.keys_read": ("a query reads the whole history, the new tokens before it, and itself"),
        "hint.top_left_keys": "that triangle begins at key 0, as if there were no history",
        "reason.positions": f"after the {N_PAST} cached ones",
        "reason.score_shape": f"{N_NEW} queries, {N_PAST} + {N_NEW} keys",
        "reason.keys_read": f"{N_PAST} cached keys, then one more new key a row",
        "reason.top_left_keys": (
            f"keys 0, 1, ... as if {N_PAST} were 0: each row loses its latest {N_PAST}"
        ),
    },
    "zh-hans": {
        "unanswered": "还没有回答",
        "right": "正确",
        "wrong": "不对：{hint}",
        "answer": "{answer}：{reason}",
        "hint.positions": f"缓存已经占用了位置 0 到 {N_PAST - 1}",
        "hint.score_shape": "每个新查询一行；每个键一列，缓存里的和新来的都算",
        "hint.keys_read": "一个查询读取全部历史、它前面的新 token，还有它自己",
        "hint.top_left_keys": "这个三角形从键 0 开始，就像没有历史一样",
        "reason.positions": f"排在缓存的 {N_PAST} 个之后",
        "reason.score_shape": f"{N_NEW} 个查询，{N_PAST} + {N_NEW} 个键",
        "reason.keys_read": f"缓存的 {N_PAST} 个键，以后每行多一个新键",
        "reason.top_left_keys": f"键 0、1……把 {N_PAST} 当成了 0：每行丢掉最近的 {N_PAST} 个",
    },
    "zh-hant": {
        "unanswered": "還沒有回答",
        "right": "正確",
        "wrong": "不對：{hint}",
        "answer": "{answer}：{reason}",
        "hint.positions": f"快取已經佔用了位置 0 到 {N_PAST - 1}",
        "hint.score_shape": "每個新查詢一列；每個鍵一行，快取裡的和新來的都算",
        "hint.keys_read": "一個查詢讀取全部歷史、它前面的新 token，還有它自己",
        "hint.top_left_keys": "這個三角形從鍵 0 開始，就像沒有歷史一樣",
        "reason.positions": f"排在快取的 {N_PAST} 個之後",
        "reason.score_shape": f"{N_NEW} 個查詢，{N_PAST} + {N_NEW} 個鍵",
        "reason.keys_read": f"快取的 {N_PAST} 個鍵，以後每列多一個新鍵",
        "reason.top_left_keys": f"鍵 0、1……把 {N_PAST} 當成了 0：每列丟掉最近的 {N_PAST} 個",
    },
}
"""Language -> what the exercise says, by ID; a hint and a reason for each question."""


def check(**given: ArrayLike | EllipsisType | None) -> None:
    """Print for each answer whether it is right; a wrong one gets a hint.

    Args:
        given: answers by name, each a list of integers; ``...`` or None where there is none yet.

    Raises:
        ValueError: there is no question of that name.
    """
    right, texts = right_answers(), _texts()
    for name, value in given.items():
        if name not in right:
            raise ValueError(f"no question {name!r}; the questions are {', '.join(right)}")
        if value is None or value is ...:
            verdict = texts["unanswered"]
        elif np.array_equal(value, right[name]):
            verdict = texts["right"]
        else:
            verdict = texts["wrong"].format(hint=texts[f"hint.{name}"])
        print(f"{name:14} {verdict}")


def answer() -> None:
    """Print the right answers with a reason each."""
    texts = _texts()
    for name, value in right_answers().items():
        said = texts["answer"].format(answer=value, reason=texts[f"reason.{name}"])
        print(f"{name:14} {said}")


def _texts() -> dict[str, str]:
    return TEXTS[os.environ.get(LANGUAGE, "en")]


def right_answers() -> dict[str, list[int]]:
    """The answers by name, read off the masks."""
    mask = offset_mask(N_PAST, N_NEW)
    return {
        "positions": offset_positions(N_PAST, N_NEW).tolist(),
        "score_shape": list(mask.shape),
        "keys_read": mask.sum(axis=1).tolist(),
        "top_left_keys": top_left_mask(N_PAST, N_NEW).sum(axis=1).tolist(),
    }
