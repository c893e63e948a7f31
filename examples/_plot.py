"""The command line of the examples: `python examples/NAME.py [--long] [--plot FILE]`.

An example's `main` computes, prints, checks and returns its results; its `draw(figure, results)` puts them into a
figure of matplotlib.  `--long` is for examples whose `main` takes `long`: the same with more steps or larger sizes.
"""

import argparse
import inspect
import sys
from importlib import import_module

STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": "cycler('color', ['3b6fb6', 'e08214', '3a9a5b', 'c2383b', '8a8a8a'])",
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "font.size": 9,
    "legend.frameon": False,
    "svg.hashsalt": "autodiff",  # the same picture is the same file
}


def run(main, draw=None, size=(7.2, 3.0)):
    """Run an example; with `--plot FILE` draw its results into a PNG or SVG file of `size` inches."""
    about = inspect.getdoc(sys.modules[main.__module__])
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    if draw is not None:
        parser.add_argument("--plot", metavar="FILE", help="draw the results into this PNG or SVG file")
    if "long" in inspect.signature(main).parameters:
        parser.add_argument("--long", action="store_true", help="more steps, or larger sizes")
    options = vars(parser.parse_args())
    file = options.pop("plot", None)
    if draw is None or file is None:
        main(**options)
        return
    figure = new_figure(size)  # first: a missing matplotlib is reported before the work
    draw(figure, main(**options))
    figure.savefig(file, dpi=125)
    print("drawn:", file)


def new_figure(size):
    """An empty figure.  Exits with a word when matplotlib is not installed."""
    try:
        matplotlib, figure = import_module("matplotlib"), import_module("matplotlib.figure")
    except ImportError:
        sys.exit(
            "--plot needs matplotlib, which is not installed\n"
            "  pip install matplotlib, or all that draws: pip install 'autodiff-native[viz]'"
        )
    matplotlib.rcParams.update(STYLE)
    return figure.Figure(figsize=size, layout="constrained")
