"""Make the pictures of the gallery: run each example that draws, and save docs/gallery/NAME.png.

    make gallery
    python tools/gallery.py flight heat      only these two, in an environment with matplotlib
"""

import subprocess
import sys
from pathlib import Path

from PIL import Image  # comes with matplotlib

ROOT = Path(__file__).parent.parent
#: The size limit of a picture: larger ones slow the page, and the repository keeps each version for ever.
LIMIT_BYTES = 60_000


def examples():
    """The names of the examples that draw a picture."""
    files = sorted((ROOT / "examples").glob("[!_]*.py"))
    return [file.stem for file in files if "def draw(" in file.read_text(encoding="utf-8")]


def main(names):
    unknown = {*names} - {*examples()}
    if unknown:
        sys.exit(f"no example that draws: {', '.join(sorted(unknown))}; there are {', '.join(examples())}")
    for name in names or examples():
        picture = ROOT / "docs" / "gallery" / f"{name}.png"
        subprocess.run([sys.executable, ROOT / "examples" / f"{name}.py", "--plot", picture], check=True)
        if picture.stat().st_size > LIMIT_BYTES:  # a palette of 128 colours reduces the file to a third
            Image.open(picture).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(picture, optimize=True)
        if picture.stat().st_size > LIMIT_BYTES:
            sys.exit(f"{picture}: {picture.stat().st_size:,} bytes; at most {LIMIT_BYTES:,} are allowed")


if __name__ == "__main__":
    main(sys.argv[1:])
