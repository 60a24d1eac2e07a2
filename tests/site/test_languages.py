"""The pages in their languages: the same anchors, labs, cells and numbers; a way between them."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.site.lab_page import SAVE_DATA, Lab, OpenPage, PrebuiltTable, State

from kvsite.pages import PAGES
from kvsite.paths import DIST

FOLDERS = ["en", "zh", "zh-hant"]
CODES = ["en", "zh-Hans", "zh-Hant"]
FILES = [f"{name}.html" for name in PAGES]

files = pytest.mark.parametrize("file", FILES)


def html(path: str) -> str:
    return (DIST / path).read_text("utf-8")


def values(page: str, attribute: str) -> list[str]:
    return re.findall(rf' {attribute}="([^"]*)"', page)


@files
def test_all_languages_have_the_same_anchors(file: str) -> None:
    english, *others = (values(html(f"{folder}/{file}"), "id") for folder in FOLDERS)
    assert len(english) > 5
    assert all(other == english for other in others)


@pytest.mark.parametrize(
    "attribute", ["data-lab", "data-cell", "data-twin", "data-readout", "data-value", "for"]
)
def test_all_languages_have_the_same_labs_cells_tables_and_values(attribute: str) -> None:
    pages = ("".join(html(f"{folder}/{file}") for file in FILES) for folder in FOLDERS)
    english, *others = (values(page, attribute) for page in pages)
    assert english
    assert all(other == english for other in others)


def numbers(page: str) -> list[str]:
    """The numbers of a page's text in order of size, without those of its links and scripts."""
    text = re.sub(r"<(script|style|pre)\b.*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    return sorted(re.findall(r"\d[\d.,]*\d|\d", text))


@files
def test_traditional_chinese_has_the_numbers_of_simplified(file: str) -> None:
    assert numbers(html(f"zh/{file}")) == numbers(html(f"zh-hant/{file}"))


@files
@pytest.mark.parametrize(("folder", "code"), list(zip(FOLDERS, CODES, strict=True)))
def test_a_page_names_its_language_and_where_the_others_are(
    file: str, folder: str, code: str
) -> None:
    page = html(f"{folder}/{file}")
    assert re.search(rf'<html lang="{code}"', page)
    name = "" if file == "index.html" else file
    links = dict(re.findall(r'<link rel="alternate" hreflang="([^"]*)" href="([^"]*)">', page))
    others = {c: f"../{f}/{name}" for c, f in zip(CODES, FOLDERS, strict=True)}
    assert links == {**others, "x-default": f"../en/{name}" if name else "../"}
    assert f'<link rel="canonical" href="../{folder}/{name}">' in page


def test_the_start_page_is_the_english_article() -> None:
    page = html("index.html")
    assert '<link rel="canonical" href="en/">' in page
    assert values(page, "id") == values(html("en/index.html"), "id")
    assert numbers(page) == numbers(html("en/index.html"))


def test_chinese_pages_speak_chinese(page: Page, site_url: str, table: PrebuiltTable) -> None:
    """Words come from the catalogue, also those that scripts write, and numbers stay."""
    page.add_init_script(SAVE_DATA)
    lab = Lab(page).open(f"{site_url}zh/")
    expect(lab.status).to_contain_text("预先算好")
    state = State(12, 6, "float32")
    lab.page.get_by_role("radio", name="float32").check()
    for name, moves in (("n_past", 8), ("n_new", 4)):
        for _ in range(moves):
            lab.slider(name).press("ArrowRight")
    expect(lab.state).to_have_text("P = 12，C = 6，float32")
    assert lab.outputs(table) == table.outputs(state)
    expect(lab.readout("top-left-summary")).to_contain_text("每个新查询恰好丢掉 P = 12 个键")
    assert lab.value("hidden-keys") == 72
    expect(lab.slider("n_past")).to_have_attribute("aria-valuetext", "历史 12")
    axis_and_slider = lab.page.evaluate(
        """() => {
          const by = (name) => maskDocument().get_model_by_name(name);
          return [by("offset-mask").below[0].axis_label, by("n_past").title];
        }"""
    )
    assert axis_and_slider == ["键的位置", "历史长度 P"]
    page.get_by_text("自己画一个掩码").click()
    cells = page.locator(".cells")
    expect(cells.get_by_role("button", name="重启")).to_be_visible()
    expect(cells.locator(".cells-status")).to_have_text("首次运行时启动 Python。")


@pytest.mark.parametrize("folder", ["zh", "zh-hant"])
def test_no_english_word_of_the_page_is_left_on_a_chinese_one(folder: str) -> None:
    page = re.sub(r"<(script|style|pre|code)\b.*?</\1>|<[^>]*>", "|", html(f"{folder}/index.html"))
    english: dict[str, Any] = dict(re.findall(r'"([\w.-]+)": "([^"]{20,})"', html("en/index.html")))
    assert len(english) > 100
    left = [text for text in english.values() if text in page and " " in text]
    assert not left


# A row is 列 and a column 行 there; a line of code is 行.
NOT_IN_TAIWAN = """
    缓 码 喂 舍 “ ” ‘ ’ 大小隻 網格里 角里 不復制 沒有采 掩碼 滑塊 推理 投機解碼 單元格 字首 引數
    釋出 許可證 拼接 返回 線性函式 實現 置信度 新行 每行 一行最 每一行都要 各行等 影響哪一行 哪些行
    哪幾行 行數 第_0_行 一列或一列 個行 該行 整行 行的新 每個鍵一列 列程式碼 執列 放列 並行最 陣行
    序行 串行 這裡行出
"""


@pytest.mark.parametrize("file", [*FILES, "poster.html", "notices.html"])
def test_traditional_chinese_is_that_of_taiwan(file: str) -> None:
    """In the whole page: text, labels, and the messages that scripts will write."""
    page = re.sub(r"\\u([0-9a-f]{4})", lambda code: chr(int(code[1], 16)), html(f"zh-hant/{file}"))
    forbidden = [words.replace("_", " ") for words in NOT_IN_TAIWAN.split()]
    own = re.sub(r"<pre\b.*?</pre>|<code\b.*?</code>", "", page, flags=re.DOTALL)
    assert [words for words in forbidden if words in own] == []


@pytest.mark.parametrize(
    ("folder", "label"), [("en", "New words, C: 4"), ("zh", "本次新词数 C：4"), ("zh-hant", "C：4")]
)
def test_a_slider_has_the_colon_of_its_language_after_each_move(
    open_page: OpenPage, site_url: str, folder: str, label: str
) -> None:
    page = open_page()
    page.goto(f"{site_url}{folder}/")
    slider = page.locator("#story-n_new")
    handle = slider.get_by_role("slider")
    handle.focus()
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(slider.locator(".bk-slider-title")).to_contain_text(label)


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_to_try_stands_before_the_controls_and_what_to_notice_after_the_figures(
    folder: str,
) -> None:
    sections = [
        section
        for file in FILES
        for section in re.findall(
            r'<section class="lab.*?data-links=', html(f"{folder}/{file}"), re.S
        )
    ]
    noticed = [section for section in sections if 'class="lab-notice"' in section]
    tried = [section for section in sections if 'class="lab-notice to-try"' in section]
    assert len(noticed) == len(tried) - 1 > 6  # the mask lab's stands in the prose
    for section in tried:
        assert section.index('class="lab-notice to-try"') < section.index('class="controls"')
    for section in noticed:
        assert section.index('class="lab-notice"') > section.rindex("</figure>")
