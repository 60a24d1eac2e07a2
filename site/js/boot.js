// A classic script, the only kind that runs from file://, where no module does: says so there.

document.documentElement.classList.add(location.protocol === "file:" ? "from-file" : "js");
