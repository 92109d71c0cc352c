"""The images of deploy/Dockerfile, built by buildah in a store of their own.

Their base is a minimal Debian trixie, as of the one that the file names, made by mmdebstrap: no
registry of images is asked. Its Python 3.11 is that of bookworm, the last release with one of its
own; everything else, OpenSSL too, is of trixie. Packages come from where this machine's pip finds
them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.deploy.engine import ROOT, Image, available

BASE: Final = "localhost/python:3.11-slim-trixie"
PACKAGES: Final = "python3,python3-venv,ca-certificates"
PYTHON_OF_BOOKWORM: Final = (
    "sed s/trixie/bookworm/ $1/etc/apt/sources.list > $1/etc/apt/sources.list.d/bookworm.list; "
    "mkdir -p $1/etc/apt/preferences.d && printf 'Package: python3* libpython3*\\n"
    "Pin: release n=bookworm*\\nPin-Priority: 1001\\n' > $1/etc/apt/preferences.d/python"
)
CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")


def buildable() -> str | None:
    """Why no image can be built here; None where it can."""
    for program in ("buildah", "mmdebstrap", "git"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    return available()


class Store:
    """A store of images and their mounted roots, until it is closed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._buildah = ["buildah", f"--root={directory}/store", f"--runroot={directory}/run"]
        archive = directory / "base.tar"
        make_base(archive)
        made = self._of("from", "scratch").strip()
        self._of("add", "--quiet", made, str(archive), "/")
        self._of("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", made)
        self._of("commit", "--quiet", made, BASE)
        self.base_size = self.size(BASE)
        archive.unlink()
        (directory / "pip.conf").write_text(pip_settings())

    def build(self, target: str, context: Path = ROOT, *more: str) -> str:
        """The id of the image of a target, from the sources in `context`."""
        file = self._directory / f"{target}.id"
        self._of(
            *("bud", "--isolation=chroot", "--pull-never", "--layers", "--timestamp=0"),
            *(f"--volume={path}:{path}:ro" for path in needed_paths()),
            f"--build-arg=BASE={BASE}",
            f"--secret=id=pip,src={self._directory / 'pip.conf'}",
            *("--file", str(context / "deploy" / "Dockerfile"), "--target", target),
            *("--iidfile", str(file), *more, str(context)),
        )
        return file.read_text().strip()

    def mounted(self, image: str) -> Image:
        """An image with its root file system mounted."""
        container = self._of("from", "--pull-never", image).strip()
        root = self._of("mount", container).strip()
        environment = dict(item.split("=", 1) for item in self.inspect(image)["config"]["Env"])
        return Image((), environment, Path(root))

    def inspect(self, image: str) -> dict[str, Any]:
        """An image's own description (OCI)."""
        found: dict[str, Any] = json.loads(self._of("inspect", "--type=image", image))["OCIv1"]
        return found

    def size(self, image: str) -> int:
        """Bytes of all layers of an image, by its id or name."""
        listed = json.loads(self._of("images", "--all", "--json"))
        known = image.removeprefix("sha256:")
        [size] = {
            item["size"]
            for item in listed
            if known.startswith(item["id"]) or known in (item["names"] or ())
        }
        return _bytes(size)

    def close(self) -> None:
        """Remove all images."""
        self._of("rm", "--all")
        self._of("rmi", "--all", "--force")

    def _of(self, *arguments: str) -> str:
        return _run(*self._buildah, *arguments)


def make_base(archive: Path) -> None:
    """The root file system of the base in a tar file; packages are of mmdebstrap's own mirror."""
    _run(
        *("mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", "--quiet"),
        *("--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*"),
        f"--setup-hook={PYTHON_OF_BOOKWORM}",
        "--customize-hook=ln -s python3 $1/usr/bin/python",
        *("trixie", str(archive)),
    )


def pip_settings() -> str:
    """A pip.conf that says what this machine's files and environment say of where packages are. A
    file of constraints stays outside: the locks say each version."""
    listed = subprocess.run(
        ["python3", "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    )
    found = {}
    for line in listed.stdout.splitlines():
        name, _, value = line.partition("=")
        found[name.rpartition(".")[2]] = value.strip("'")
    found.pop("constraint", None)
    return "\n".join(["[global]", *(f"{name} = {value}" for name, value in found.items()), ""])


def needed_paths() -> list[Path]:
    """What a build has to see of this machine: its certificates, and directories of packages that
    pip's settings name."""
    named = re.findall(r"(?:file://)?(/[\w./-]+)", pip_settings())
    found = {Path(*Path(path).parts[:3]) for path in named if Path(path).is_dir()}
    return [CERTIFICATES, *sorted(path for path in found if not str(path).startswith("/etc"))]


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr}"
    return done.stdout


def _bytes(size: str) -> int:
    number, unit = size.split()
    return int(float(number) * {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}[unit])


if __name__ == "__main__":  # for play.sh: the base, and the options of a build
    to = Path(sys.argv[1])
    make_base(to / "base.tar")
    (to / "pip.conf").write_text(pip_settings())
    for path in needed_paths():
        print(f"--option=--volume={path}:{path}:ro")
