"""`python -m docs.shrink_pictures`: what the browser tests took, into the pages, in 64 colours."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

TAKEN, KEPT = Path("build/pictures/docs"), Path("docs/pictures/console")


def main() -> None:
    """Replace those that the pages show."""
    for kept in sorted(KEPT.glob("*.png")):
        with Image.open(TAKEN / kept.name) as picture:
            picture.convert("RGB").quantize(64).save(kept, optimize=True)


if __name__ == "__main__":
    main()
