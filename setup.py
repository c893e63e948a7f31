"""What pyproject.toml cannot say: the examples are installed inside the package, so that `autodiff demo` finds them."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["autodiff*", "codegen*"]), "autodiff.examples"],
    package_dir={"autodiff.examples": "examples"},
)
