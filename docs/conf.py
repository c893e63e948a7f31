"""The documentation site: `make docs` builds it into build/docs, with warnings as errors."""

import logging
import sys
from pathlib import Path

from pygments.lexers.python import PythonConsoleLexer, PythonLexer
from sphinx.highlighting import lexers

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]

import autodiff  # noqa: E402  from this checkout, whatever is installed

project = "autodiff"
author = "the authors of autodiff"
copyright = author
release = version = autodiff.__version__

# Code of peers, which looks like Python but is not run by the tests unless they are installed.
lexers.update({name: PythonConsoleLexer() for name in ("torch", "jax", "numba")})
lexers.update({name: PythonLexer() for name in ("dask", "ray", "mpi4py", "torchrun")})

extensions = ["myst_parser", "sphinx_copybutton"]
extensions += ["from_docstrings", "linked_names", "command_line", "refused_parameters"]  # in _ext
exclude_patterns = ["_ext", "README.md"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "attrs_inline"]
myst_heading_anchors = 3

smartquotes = False  # text of docstrings has Python's quotes

html_theme = "furo"
html_title = f"autodiff {release}"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style, pygments_dark_style = "friendly", "github-dark"
maximum_signature_line_length = 88

# The copy button takes the lines that were typed.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


# Pages of a folder join the table of contents by themselves; a folder without pages yet is no mistake.  (Sphinx gives
# this warning no type, so `suppress_warnings` does not reach it.)
logging.getLogger("sphinx.sphinx.directives.other").addFilter(
    lambda record: getattr(record, "subtype", None) != "empty_glob"
)
