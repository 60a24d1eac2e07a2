// A classic script, the only kind that runs from file://: says why nothing moves there.

document.documentElement.classList.add("js");
if (location.protocol === "file:") {
  document.documentElement.classList.add("from-file");
}
