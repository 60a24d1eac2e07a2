"""Install a system package where that needs no question: Debian or Ubuntu, as root."""

import os
import shutil
import subprocess

from kvsite.stages import Stage, run


def can_install() -> bool:
    """True with apt-get at hand and the right to use it: root, or sudo without a password."""
    if not shutil.which("apt-get"):
        return False
    return os.geteuid() == 0 or _has_sudo()


def _has_sudo() -> bool:
    if not shutil.which("sudo"):
        return False
    return subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode == 0


def install(current: Stage, *packages: str) -> None:
    """Install `packages` with apt-get.

    Raises:
        Failure: apt-get failed.
    """
    current.note(f"installing {' '.join(packages)} with apt-get")
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y"]
    run(current, [*apt, "update"])
    run(current, [*apt, "install", "--no-install-recommends", *packages])
