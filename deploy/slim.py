"""Takes from an installed environment what no service runs, and says what each dependency weighs.

    python slim.py DIRECTORY

Tests, headers, sources of compiled modules, type stubs, sample data, libraries for systems that
Tacit does not use, and debug symbols. What remains has to import.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final

FOLDERS: Final = ("tests", "test", "SelfTest", "include", "sample_data")
SUFFIXES: Final = (
    *(".a", ".c", ".cc", ".cpp", ".h", ".hpp", ".pxd", ".pxi", ".pyi", ".pyx"),
    *(".cmake", ".f", ".f90", ".map"),
)
FILES: Final = (
    # Arrow beyond CSV and Parquet files on a disk
    *("pyarrow/libarrow_flight*", "pyarrow/_flight*", "pyarrow/libarrow_python_flight*"),
    *("pyarrow/libarrow_s3*", "pyarrow/_s3fs*", "pyarrow/_gcsfs*", "pyarrow/_azurefs*"),
    *("pyarrow/libgandiva*", "pyarrow/gandiva*", "pyarrow/libarrow_orc*", "pyarrow/_orc*"),
)
MEGABYTE: Final = 1e6


def main() -> None:
    """Slim the environment that the first argument names."""
    root = Path(sys.argv[1]).resolve()
    packages = next(root.glob("lib/python3*/site-packages"))
    before = _size(packages)
    for path in sorted(packages.rglob("*")):
        if path.is_dir() and path.name in FOLDERS:
            shutil.rmtree(path)
        elif path.suffix in SUFFIXES and path.is_file():
            path.unlink()
    for pattern in FILES:
        for path in packages.glob(pattern):
            path.unlink()
    # Libraries that a wheel carries were rewritten by its maker's tool, and break if they are cut.
    cut = [path for path in packages.rglob("*.so") if not path.parent.name.endswith(".libs")]
    subprocess.run(["strip", "--strip-debug", *cut], check=True)
    weights = sorted(
        ((_weight(item), item) for item in distributions(path=[str(packages)])),
        key=lambda pair: pair[0],
        reverse=True,
    )
    heavy = [(weight, item) for weight, item in weights if weight >= MEGABYTE]
    for weight, item in heavy:
        print(f"{weight / MEGABYTE:7.1f} MB  {item.name}")
    print(f"{_size(packages) / MEGABYTE:7.1f} MB  all, {before / MEGABYTE:.1f} before")
    modules = sorted({name for _, item in heavy for name in _modules(item)})
    imports = "\n".join(f"import {name}" for name in modules)
    subprocess.run([root / "bin" / "python", "-c", imports], check=True)


def _weight(distribution: Distribution) -> int:
    """Bytes of what is left of a distribution."""
    paths = [Path(str(distribution.locate_file(file))) for file in distribution.files or ()]
    return sum(path.stat().st_size for path in paths if path.is_file())


def _modules(distribution: Distribution) -> set[str]:
    """The packages that a distribution brings."""
    files = distribution.files or ()
    return {file.parts[0] for file in files if len(file.parts) == 2 and file.name == "__init__.py"}


def _size(directory: Path) -> int:
    return sum(path.lstat().st_size for path in directory.rglob("*") if not path.is_dir())


if __name__ == "__main__":
    main()
