"""The poster is one sheet of paper, in each language; what it draws and counts is right."""

import re

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from tests.site.lab_page import OpenPage

from kvproof import offset_mask, top_left_mask
from kvsite.poster import lines, poster

FOLDERS = ["en", "zh", "zh-hant"]


def n_sheets(page: Page, paper: str) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", page.pdf(format=paper)))


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_the_poster_is_one_sheet(page: Page, site_url: str, folder: str, paper: str) -> None:
    page.goto(f"{site_url}{folder}/poster.html")
    assert n_sheets(page, paper) == 1
    page.add_style_tag(content=".poster { min-height: 400mm }")  # the count can fail
    assert n_sheets(page, paper) == 2


@pytest.mark.parametrize("folder", FOLDERS)
def test_its_masks_are_those_of_the_rule(page: Page, site_url: str, folder: str) -> None:
    page.goto(f"{site_url}{folder}/poster.html")
    for figure, mask in zip(
        page.locator(".poster-mask .mask").all(),
        (offset_mask(13, 5), top_left_mask(13, 5)),
        strict=True,
    ):
        marks = [mark == "●" for mark in figure.locator("text").all_text_contents()]
        assert np.array_equal(np.reshape(marks, mask.shape), mask)
    assert len(page.locator(".poster-words li").all()) == 18


def test_one_call_of_two_tokens_after_one_sees_all_three_mistakes() -> None:
    """And each of the two usual tests is blind to one of them."""
    one_shot, ones, both = zip(*poster()["seen"].values(), strict=True)
    assert None in one_shot
    assert None in ones
    assert None not in both


def test_a_cache_computes_each_column_once_and_no_cache_computes_all_again() -> None:
    for line in lines():
        n_past, n_new = line.n_past, line.n_new
        rest = [""] * (14 - n_past - n_new)
        assert line.cached == ["history"] * n_past + ["chunk"] * n_new + rest
        assert line.without == ["recompute"] * n_past + ["chunk"] * n_new + rest
    assert [(line.n_past, line.n_new) for line in lines()][:2] == [(0, 6), (6, 5)]


def test_its_savings_are_those_of_the_formula() -> None:
    data = poster()
    shape, g, p = data["shape"], data["steps"], data["prefix"]
    assert data["recomputed"] == g * p + g * (g + 1) // 2
    assert data["token_bytes"] == 2 * shape.n_layers * shape.n_kv_heads * shape.head_dim * 2
    assert data["context_bytes"] == data["context"] * data["token_bytes"]


# --- Ordinary pages on paper --------------------------------------------------------------------


@pytest.mark.parametrize("file", ["", "museum.html", "notebook.html", "check.html", "api.html"])
def test_nothing_floats_on_paper_and_dark_stays_on_the_screen(
    open_page: OpenPage, site_url: str, file: str
) -> None:
    page = open_page(color_scheme="dark")
    page.goto(f"{site_url}en/{file}")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.emulate_media(media="print")
    assert page.evaluate(ground) == "rgb(251, 251, 249)" != dark
    floating = """[...document.querySelectorAll("body *")].filter((element) =>
        ["fixed", "sticky"].includes(getComputedStyle(element).position)
        && element.offsetWidth * element.offsetHeight > 0)
        .map((element) => element.outerHTML.slice(0, 200))"""
    assert page.evaluate(floating) == []
    expect(page.locator(".site-header")).to_be_hidden()
