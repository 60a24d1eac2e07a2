"""What ``micropip`` can install in the cells of the page, which asks no other host."""

from functools import cache, wraps
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit


class _NotBrought(Exception):
    """The site doesn't bring a package."""


@cache
def keep_to_the_site(refusal: str) -> None:
    """Let micropip, which must be loaded, say why a package can't be had and what there is.

    By itself it blames the spelling of the name, or a server's headers.

    Args:
        refusal: a text with ``{name}``, what was asked for, and ``{wheels}``, what the site brings.
    """
    import micropip
    from js import location

    by_itself, layer = micropip.install, micropip.install.__self__.compat_layer
    fetch_bytes = layer.fetch_bytes

    async def from_an_index(name: str, *_: Any, **__: Any) -> None:
        raise _NotBrought(name)

    async def from_an_address(url: str, options: dict[str, str]) -> bytes:
        if urlsplit(url).netloc not in ("", location.host):
            raise _NotBrought(url)
        content: bytes = await fetch_bytes(url, options)
        return content

    @wraps(by_itself)
    async def install(*arguments: Any, **options: Any) -> None:
        try:
            await by_itself(*arguments, **options)
        except _NotBrought as name:  # without the frames of micropip
            versions = {name: wheel["version"] for name, wheel in layer.lockfile_packages.items()}
            versions["kvproof"] = version("kvproof")
            wheels = ", ".join(f"{name} {versions[name]}" for name in sorted(versions))
            raise LookupError(refusal.format(name=name, wheels=wheels)) from None

    micropip.package_index.query_package = from_an_index  # of what is neither here nor locked
    layer.fetch_bytes = from_an_address
    micropip.install = install
