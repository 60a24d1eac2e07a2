"""The starting cells in the page's language: another's comments and sentences, the same code."""

import ast
import re

import pytest

from kvlab import exercise
from kvlab.cells import Cell
from kvsite.cell_texts import cell_id, page_cells, sayings, translated
from kvsite.languages import ENGLISH, LANGUAGES, Language

CELLS = page_cells(ENGLISH)
_, SIMPLIFIED, TRADITIONAL = LANGUAGES
chinese = pytest.mark.parametrize("language", LANGUAGES[1:], ids=lambda one: one.folder)


class _Wordless(ast.NodeTransformer):
    """Without strings; of formatted ones the places stay, in order of their code."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant("") if isinstance(node.value, str) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        places = [part for part in node.values if isinstance(part, ast.FormattedValue)]
        return ast.JoinedStr(sorted(places, key=ast.dump))


def wordless(source: str) -> str:
    return ast.dump(_Wordless().visit(ast.parse(source)))


@chinese
@pytest.mark.parametrize("cell", CELLS, ids=cell_id)
def test_the_code_is_the_same_in_every_language(cell: Cell, language: Language) -> None:
    [other] = [one for one in page_cells(language) if one.name == cell.name]
    assert other.source != cell.source
    assert wordless(other.source) == wordless(cell.source)
    assert wordless(f"{other.source}\nmore = 1") != wordless(cell.source)


@pytest.mark.parametrize("cell", page_cells(SIMPLIFIED), ids=cell_id)
def test_no_sentence_is_left_in_english(cell: Cell) -> None:
    read = [saying.text for saying in sayings(cell.source) if saying.is_read]
    own_words = [re.sub(r"\{.*?\}|\(.*?\)|\[.*?\]", "", text) for text in read]
    english = re.compile(r"[a-z]{3,} [a-z]{2,}")
    assert english.search("the only row that is projected")
    assert not [text for text in own_words if english.search(text)]


def test_traditional_cells_speak_that_of_taiwan() -> None:
    text = "".join(cell.source for cell in page_cells(TRADITIONAL))
    assert "遮罩" in text
    assert "快取" in text
    assert not [sign for sign in "码缓读" if sign in text]


def test_a_text_and_its_translation_need_one_another() -> None:
    source = 'x = 1  # one\nprint(f"{x} left", "key")\n'
    texts = {"one": "一", "{x} left": "余 {x}", "key": "键"}
    assert translated(source, texts) == 'x = 1  # 一\nprint(f"余 {x}", "键")\n'
    with pytest.raises(ValueError, match="no translation of 'one'"):
        translated(source, {"{x} left": "余 {x}", "key": "键"})
    with pytest.raises(ValueError, match="no cell says 'two'"):
        translated(source, texts | {"two": "二"})


def test_code_in_strings_that_nobody_reads_may_stay() -> None:
    assert translated('a = {"key": 1}\n', {}) == 'a = {"key": 1}\n'


def test_a_comment_of_another_form_is_refused_by_its_text() -> None:
    with pytest.raises(ValueError, match=r"can't translate '#bare'"):
        sayings("x = 1  #bare\n")


def test_the_exercise_speaks_the_pages_language(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    english, simplified, traditional = exercise.TEXTS.values()
    assert english.keys() == simplified.keys()
    assert {name: TRADITIONAL.from_source(text) for name, text in simplified.items()} == traditional
    assert not [text for text in simplified.values() if re.search(r"[a-z]{3,} [a-z]{2,}", text)]
    monkeypatch.setenv("KVPROOF_LANGUAGE", "zh-hans")
    exercise.check(positions=[10, 11, 12], keys_read=[1, 1, 1])
    right, wrong = capsys.readouterr().out.splitlines()
    assert right.endswith("正确")
    assert wrong.endswith("不对：一个查询读取全部历史、它前面的新 token，还有它自己")
