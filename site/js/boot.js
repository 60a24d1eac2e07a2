// A classic script, which runs before anything is drawn: the theme. It is also the only kind that
// runs from file://, where no module does: says so there.

import { keptTheme, useTheme } from "./theme.js";

document.documentElement.classList.add(location.protocol === "file:" ? "from-file" : "js");
useTheme(keptTheme());
