"""The pictures of the gallery: runs each example that draws, into docs/gallery/NAME.png.

    make gallery
    python tools/gallery.py flight heat      only these, in an environment with matplotlib
"""

import subprocess
import sys
from pathlib import Path

from PIL import Image  # comes with matplotlib

ROOT = Path(__file__).parent.parent
#: A page with a larger picture loads slowly, and each version of a picture stays in the repository for ever.
LIMIT_BYTES = 60_000


def examples():
    """Names of the examples with a picture."""
    files = sorted((ROOT / "examples").glob("[!_]*.py"))
    return [file.stem for file in files if "def draw(" in file.read_text(encoding="utf-8")]


def main(names):
    unknown = {*names} - {*examples()}
    if unknown:
        sys.exit(f"no example that draws: {', '.join(sorted(unknown))}; there are {', '.join(examples())}")
    for name in names or examples():
        picture = ROOT / "docs" / "gallery" / f"{name}.png"
        subprocess.run([sys.executable, ROOT / "examples" / f"{name}.py", "--plot", picture], check=True)
        if picture.stat().st_size > LIMIT_BYTES:  # a palette makes it a third of the size
            Image.open(picture).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(picture, optimize=True)
        if picture.stat().st_size > LIMIT_BYTES:
            sys.exit(f"{picture}: {picture.stat().st_size:,} bytes; at most {LIMIT_BYTES:,} are allowed")


if __name__ == "__main__":
    main(sys.argv[1:])
