"""The mask lab as a reader of the page meets it, and what it must show."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from playwright.sync_api import Locator, Page, expect

from kvproof import MaskReport, compare_masks
from kvsite.labs import readouts
from kvsite.languages import ENGLISH, page_source
from kvsite.pages import HOME, PAGES
from kvsite.words import TEXTS, load_catalogue

PYTHON_STARTS = 120_000
"""Milliseconds at most until Python answers on a slow machine; nothing here measures time."""

PICTURES_ARE_TABLES = {"stepper"}
"""Labs without a canvas, which need no tables beside it (tests/site/test_stepper.py)."""

CONTROLS = ("n_past", "n_new", "dtype")
DTYPES = ("float32", "float64")


def _files_of(kind: str) -> dict[str, str]:
    """Name of each lab or cell -> its page's file, "" for the first page."""
    found: dict[str, str] = {}
    for page in PAGES:
        file = "" if page == HOME else f"{page}.html"
        names = re.findall(rf"<!-- part: {kind}_(\w+) -->", page_source(ENGLISH, f"{page}.md"))
        found |= {name.replace("_", "-"): file for name in names}
    return found


FILE_OF_LAB, FILE_OF_CELL = _files_of("lab"), _files_of("cell")
LAB_FILES = list(dict.fromkeys(FILE_OF_LAB.values()))
"""The pages that have labs."""


OpenPage = Callable[..., Page]
"""The fixture ``open_page``."""

SAVE_DATA = 'Object.defineProperty(navigator, "connection", { value: { saveData: true } });'
"""Makes a browser claim that its user saves data: then the lab waits for a click."""

COUNT_QUESTIONS = """
window.maskDocument = () => Bokeh.documents.find((one) => one.get_model_by_name("offset-mask"));
window.labQuestions = { asked: 0, answered: 0 };
window.Worker = class extends Worker {
  constructor(...options) {
    super(...options);
    this.addEventListener("message", ({ data }) => {
      if (data.id !== this.asked || data.type !== "answer") return;
      setTimeout(() => { window.labQuestions.answered += 1; });
    });
  }
  postMessage(message, ...rest) {
    if (message.type === "state") {
      window.labQuestions.asked += 1;
      this.asked = message.id;
    }
    super.postMessage(message, ...rest);
  }
};
"""
"""Counts in the page what the lab's worker was asked, and the answers that have been shown; finds
the lab's document among those of the page."""


class State(NamedTuple):
    """Where the controls stand."""

    n_past: int
    n_new: int
    dtype: str = "float64"

    @property
    def label(self) -> str:
        """What the page calls it."""
        return f"P = {self.n_past}, C = {self.n_new}, {self.dtype}"

    @property
    def control_values(self) -> dict[str, int]:
        """What the widgets hold: the precision is an index."""
        return {"n_past": self.n_past, "n_new": self.n_new, "dtype": DTYPES.index(self.dtype)}

    def report(self) -> MaskReport:
        """The numbers as this test's own Python computes them."""
        return compare_masks(*self)


DEFAULT = State(4, 2)


class PrebuiltTable:
    """The lab's file of prebuilt states."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.description = data["description"]
        self._table = data["table"]

    def outputs(self, state: State) -> dict[str, Any]:
        """Name of each output -> its value at a state."""
        key = ",".join(str(state.control_values[name]) for name in self.description["widgets"])
        values = [self._table["pool"][index] for index in self._table["states"][key]]
        return dict(zip(self.description["outputs"], values, strict=True))

    def readouts(self, state: State) -> dict[str, tuple[str, str]]:
        """Name of each read-out -> its text and full-precision value ("" for a sentence)."""
        found = readouts(self.outputs(state)["texts"], load_catalogue(TEXTS / "en.toml"))
        return {name: (readout["text"], readout["value"]) for name, readout in found.items()}


class Lab:
    """The lab on an open page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.html = page.locator("html")
        self.status = page.locator("#runtime-status")
        self.button = page.locator("#runtime-button")
        self.state = self.readout("state")

    def open(self, url: str) -> "Lab":
        """Go to the page and wait until the controls are there."""
        self.page.add_init_script(COUNT_QUESTIONS)
        self.page.goto(url)
        self.page.locator("#mask-lab").scroll_into_view_if_needed()
        for name in ("n_past", "n_new"):
            expect(self.slider(name)).to_be_visible()
        return self

    def expect_runtime(self, state: str, timeout: int = PYTHON_STARTS) -> None:
        """Wait for ``<html data-runtime-state>``."""
        expect(self.html).to_have_attribute("data-runtime-state", state, timeout=timeout)

    def slider(self, name: str) -> Locator:
        """The handle of ``n_past`` or ``n_new``."""
        return self.page.locator(f"#mask-{name}").get_by_role("slider")

    def radio(self, dtype: str) -> Locator:
        return self.page.get_by_role("radio", name=dtype)

    def readout(self, name: str) -> Locator:
        return self.page.locator(f'[data-readout="mask.{name}"]')

    def value(self, name: str) -> float:
        """A read-out's number in full precision."""
        return float(self.readout(name).get_attribute("data-value") or "missing")

    def move_to(self, state: State) -> None:
        """Set the controls, as a script would, and wait until the page shows that state."""
        self.move_through([state])

    def move_through(self, states: Sequence[State]) -> None:
        """Move from state to state, each as soon as the one before is shown."""
        self.page.evaluate(
            """async (states) => {
              const document = maskDocument();
              const shown = window.document.querySelector('[data-readout="mask.state"]');
              for (const [values, label] of states) {
                for (const [name, value] of Object.entries(values)) {
                  const control = document.get_model_by_name(name);
                  control[control.properties.active ? "active" : "value"] = value;
                }
                const deadline = performance.now() + 30_000;
                while (shown.textContent !== label) {
                  if (performance.now() > deadline) {
                    throw new Error(`moved to ${label}, but ${shown.textContent} is shown`);
                  }
                  await new Promise(requestAnimationFrame);
                }
              }
            }""",
            [(state.control_values, state.label) for state in states],
        )

    def expect_state(self, state: State) -> None:
        expect(self.state).to_have_text(state.label)

    def wait_until_idle(self) -> None:
        """Wait until Python, if it is there, has answered all that it was asked."""
        self.page.wait_for_function(
            """() => {
              const { asked, answered } = window.labQuestions;
              const live = document.documentElement.dataset.runtimeState === "live";
              return asked === answered && (asked > 0 || !live);
            }"""
        )

    def control_values(self) -> State:
        """Where the controls stand, whatever the page shows."""
        values = self.page.evaluate(
            """names => names.map(name => {
              const control = maskDocument().get_model_by_name(name);
              return control.properties.active ? control.active : control.value;
            })""",
            CONTROLS,
        )
        return State(values[0], values[1], DTYPES[values[2]])

    def outputs(self, table: PrebuiltTable) -> dict[str, Any]:
        """What the document's models hold now, by the names of the outputs."""
        outputs: dict[str, Any] = self.page.evaluate(
            """outputs => {
              const document = maskDocument();
              const value = ({id, attr}) => {
                const value = document.get_model_by_id(id)[attr];
                return attr === "data" ? value : value?.value ?? value; // a size is {value: 16}
              };
              return Object.fromEntries(Object.entries(outputs).map(([n, o]) => [n, value(o)]));
            }""",
            table.description["outputs"],
        )
        return outputs

    def readouts(self) -> dict[str, tuple[str, str]]:
        """All read-outs as the page shows them: text and ``data-value`` ("" without one)."""
        found = self.page.evaluate(
            """() => [...document.querySelectorAll("[data-readout^='mask.']")].map(
              (e) => [e.dataset.readout.slice(5), e.textContent, e.dataset.value ?? ""])"""
        )
        return {name: (text, value) for name, text, value in found}

    def model_count(self) -> int:
        count: int = self.page.evaluate("() => maskDocument()._all_models.size")
        return count


def twin_rows(table: Locator) -> list[list[str]]:
    """A folded table's body, opened first, as a reader must: its texts."""
    rows: list[list[str]] = table.evaluate(
        """async (table) => {
          const fold = table.closest("details");
          if (!fold.open) {
            const opened = new Promise((resolve) => fold.addEventListener("toggle", resolve));
            fold.open = true;
            await opened;
          }
          return [...table.tBodies[0].rows].map(
            (row) => [...row.cells].map((cell) => cell.textContent));
        }"""
    )
    return rows


def open_fold(page: Page) -> None:
    """Show the first page's cell."""
    page.get_by_text("Draw a mask of your own").click()
