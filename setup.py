"""What pyproject.toml cannot say: the examples are installed inside the package, so that `autodiff demo` finds them.

Not where the package is used in place (`pip install -e`): there they are beside it, and Python finds the package by a
path. Else each process would import what looks for it, which takes 12 ms.
"""

import sys

from setuptools import find_packages, setup

found = find_packages(include=["autodiff*", "codegen*"])
if "editable_wheel" in sys.argv:
    setup(packages=found, package_dir={"": "."})
else:
    setup(packages=[*found, "autodiff.examples"], package_dir={"autodiff.examples": "examples"})
