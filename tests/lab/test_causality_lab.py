"""Causality: what is drawn is what two passes over two texts say."""

import numpy as np
import pytest
from tests.lab.lab_states import all_states, move, sentences, value

import kvproof
from kvlab.causality_lab import MASKS, N_TOTAL, CausalityLab
from kvlab.log_axis import ZERO_LEVEL
from kvlab.session import Session
from kvproof import REFERENCE

CAUSAL, OPEN = range(len(MASKS))


def moves_by_forward(changed: int) -> list[float]:
    """The same by another way: the plain decoder, which knows no cache and no other mask."""
    params = kvproof.init_params(REFERENCE, dtype="float64")
    text = kvproof.example_tokens(N_TOTAL)
    other = text.copy()
    other[0, changed] = (text[0, changed] + 1) % REFERENCE.vocab_size
    before, after = (kvproof.forward(params, one, REFERENCE) for one in (text, other))
    found: list[float] = np.abs(after - before)[0].max(axis=-1).tolist()
    return found


def test_each_token_and_both_masks_are_there() -> None:
    assert len(all_states("causality")) == N_TOTAL * len(MASKS)


@pytest.mark.parametrize("changed", [0, 1, 12, 23])
def test_with_the_mask_the_moves_are_those_of_the_plain_decoder(changed: int) -> None:
    points = move(Session(CausalityLab), changed=changed)["moves.points"]
    np.testing.assert_allclose(points["y"], moves_by_forward(changed), rtol=1e-3, atol=1e-13)


def test_before_the_replaced_token_nothing_moves_with_the_mask_and_all_without() -> None:
    for values, state in all_states("causality"):
        changed, points = values["changed"], state["moves.points"]
        assert points["x"] == list(range(N_TOTAL))
        earlier, later = points["y"][:changed], points["y"][changed:]
        assert min(later) > 0.01
        if values["mask"] == CAUSAL:
            assert earlier == [ZERO_LEVEL] * changed, "not even the last bit"
        else:
            assert all(one > 0.01 for one in earlier)


def test_picture_numbers_and_sentence_agree() -> None:
    for values, state in all_states("causality"):
        changed, points = values["changed"], state["moves.points"]
        before = "hidden-future" if values["mask"] == CAUSAL else "wrongly-seen"
        assert points["state"] == [before] * changed + ["difference"] * (N_TOTAL - changed)
        assert [text == "0" for text in points["move"]] == [y == ZERO_LEVEL for y in points["y"]]
        assert state["moves.line"] == changed - 0.5
        assert float(value(state, "later")) == pytest.approx(max(points["y"][changed:]), rel=1e-3)
        case, (verdict, args), _ = sentences(state, "summary")
        assert case == ("causality.case", {"changed": str(changed), "total": str(N_TOTAL)})
        if changed == 0:
            assert verdict == "causality.none-before"
            assert sentences(state, "earlier") == [("causality.no-output", {})]
            continue
        largest = pytest.approx(max(points["y"][:changed]), rel=1e-3)
        assert max(float(value(state, "earlier")), ZERO_LEVEL) == largest
        if values["mask"] == CAUSAL:
            assert verdict == "causality.stays"
        else:
            assert verdict == ("causality.leaks-one" if changed == 1 else "causality.leaks-all")
            assert args.get("all", "1") == str(changed)


def test_a_mask_with_a_leak_is_drawn_where_it_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: one query that sees one token too many."""

    def leaky(n_past: int, n_new: int) -> kvproof.model.masks.BoolArray:
        mask = kvproof.offset_mask(n_past, n_new)
        mask[5, 9] = True
        return mask

    monkeypatch.setitem(MASKS, "causality.causal", leaky)
    state = move(Session(CausalityLab), changed=9)
    states = state["moves.points"]["state"]
    _, (verdict, args), _ = sentences(state, "summary")
    assert verdict == "causality.leaks-some"
    assert (args["moved"], args["all"]) == ("4", "9")
    assert [n for n, state in enumerate(states) if state == "wrongly-seen"] == [5, 6, 7, 8]
