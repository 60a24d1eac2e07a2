"""Whatever of others' work is shipped has a licence, and its text is on the page."""

import tarfile
from importlib.metadata import packages_distributions

import pytest

from kvsite import notices
from kvsite.languages import ENGLISH
from kvsite.notices import bokehjs_packages, bundled, pyodide_parts, shipped, wheels
from kvsite.pages import environment
from kvsite.paths import PY, RUNTIME
from kvsite.stages import Failure
from kvsite.wasm import LAB_FILES, LIBRARIES

pytestmark = pytest.mark.usefixtures("built_site")


@pytest.fixture
def names() -> set[str]:
    return {component.name for component in shipped()}


def test_every_package_in_the_labs_archive_is_named(names: set[str]) -> None:
    inside = set()
    for file in (LIBRARIES / "libraries.tar", LAB_FILES / "labs.tar"):
        with tarfile.open(file) as archive:
            inside |= {name.split("/")[0] for name in archive.getnames()}
    modules = {name.removesuffix(".pyc") for name in inside if not name.endswith(".dist-info")}
    ours = {path.stem for path in PY.iterdir()}
    owners = packages_distributions()
    unnamed = {m for m in modules - ours if not names & {*owners.get(m, ()), m}}
    assert "panel" in modules
    assert not unnamed


def test_every_wheel_is_named_and_numpy_with_what_it_contains() -> None:
    found = {wheel.name: wheel for wheel in wheels()}
    assert {file.name.split("-")[0] for file in RUNTIME.glob("*.whl")} == found.keys()
    texts = "\n".join(found["numpy"].texts)
    for part in ("NumPy Developers", "libdivide", "Ryan Juckett", "Highway", "Apache License"):
        assert part in texts


def test_what_the_scripts_are_made_of_is_looked_up(names: set[str]) -> None:
    assert {"proj4", "preact", "@preact/signals", "nouislider"} <= bokehjs_packages() <= names
    assert {"@codemirror/view", "@lezer/python", "w3c-keyname"} <= {part.name for part in bundled()}


def test_python_is_named_with_its_version_and_its_parts() -> None:
    parts = {part.name: part for part in pyodide_parts()}
    assert parts["cpython"].version.startswith("3.14")
    for text in ("PYTHON SOFTWARE FOUNDATION LICENSE", "Mersenne Twister", "libffi", "zlib"):
        assert text in parts["cpython"].texts[0]


@pytest.mark.parametrize("without", ["proj4", "musl"])
def test_a_build_without_a_licence_text_fails(
    without: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = notices._texts
    monkeypatch.setattr(notices, "_texts", lambda p, n: () if n == without else texts(p, n))
    with pytest.raises(Failure, match=f"No licence for {without}: "):
        shipped.__wrapped__()


def test_a_component_that_nobody_has_looked_at_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "bokehjs_packages", lambda: {"left-pad", "proj4"})
    with pytest.raises(Failure, match="No licence for left-pad: "):
        shipped.__wrapped__()


def test_the_page_has_each_text_as_it_is() -> None:
    template = environment(ENGLISH).get_template("notices.html.j2")
    page = template.render(components=shipped())
    assert page.count("<details") == len(shipped())
    assert "Redistribution and use in source and binary forms" in page
    assert "<hello@alexei.ro>" not in page  # text, not markup
    assert "&lt;hello@alexei.ro&gt;" in page
