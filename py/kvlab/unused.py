"""What Panel imports and no lab uses, so that the browser's Python starts sooner.

``import panel`` brings every widget, pane and template with it; half a second of that is for things
which no lab touches.  A stub stands for each of these modules, and whatever is asked of it is an
empty class.  The build runs all labs on these stubs, and the tests compare each lab's first answer
with that of the whole Panel.
"""

import sys
from types import ModuleType

UNUSED = (
    "unittest",
    "unittest.mock",
    "pyodide_http",  # makes `requests` work in a browser, and else wants pandas
    "panel.template",
    "panel.template.base",
    "panel.chat",
    "panel.custom",
    "panel.pipeline",
    "panel.interact",
    "panel.pane.vtk",
    "panel.widgets.indicators",
    "panel.widgets.speech_to_text",
    "panel.widgets.tables",
    "panel.widgets.terminal",
)
"""Parents before their children."""


class _Stub(ModuleType):
    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)  # Python's own questions, as whether there is a __path__
        return type(name, (), {})


def leave_out() -> None:
    """Put the stubs in the modules' places; to be called before Panel is imported."""
    for name in UNUSED:
        sys.modules[name] = stub = _Stub(name)
        parent, _, child = name.rpartition(".")
        if parent in UNUSED:
            setattr(sys.modules[parent], child, stub)
