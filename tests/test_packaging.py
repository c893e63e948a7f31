"""The distribution: what it says of itself agrees with what is there, and what it installs works by itself."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import autodiff as ad
from codegen.runtime import slots

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
(MAJOR, FIRST), (_, LAST) = slots._VERSIONS
VERSIONS = [f"{MAJOR}.{minor}" for minor in range(FIRST, LAST + 1)]


def test_the_pythons_that_are_said_are_those_that_are_known():
    prefix = "Programming Language :: Python :: 3."
    assert [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if c.startswith(prefix)] == VERSIONS
    assert PROJECT["requires-python"] == f">={VERSIONS[0]}"
    tried = re.findall(r"^\| (3\.\d+) \|", (ROOT / "docs" / "install.md").read_text(), re.MULTILINE)
    assert tried == VERSIONS
    chosen = re.search(r"for p in python3 (.*);", (ROOT / "Makefile").read_text())
    assert chosen and chosen[1].split() == [f"python{v}" for v in reversed(VERSIONS)]


@pytest.mark.parametrize("file", ["constraints.txt", "constraints-oldest.txt"])
@pytest.mark.parametrize("version", VERSIONS)
def test_each_python_has_one_numpy_and_one_scipy(file, version):
    lines = [line.partition("#")[0].strip() for line in (ROOT / file).read_text().splitlines()]
    asked = [Requirement(line) for line in lines if line]
    here = {"python_version": version, "python_full_version": f"{version}.0"}
    for name in ("numpy", "scipy", "llvmlite"):
        assert len([r for r in asked if r.name == name and (not r.marker or r.marker.evaluate(here))]) == 1


def test_the_extras_are_documented():
    told = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "install.md").read_text(), re.MULTILINE)
    assert sorted(told) == sorted(PROJECT["optional-dependencies"])


def test_the_oldest_versions_are_those_that_are_said():
    oldest = (ROOT / "constraints-oldest.txt").read_text()
    for asked in PROJECT["dependencies"]:
        name, _, version = asked.partition(">=")
        assert re.search(rf"^{name}=={re.escape(version)}(\.\d+)*(;|$)", oldest, re.MULTILINE), asked


@pytest.mark.slow
def test_a_wheel_works_by_itself(tmp_path):
    """Built of a copy, by what pip can reach; installed beside the packages of this environment."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    source = tmp_path / "source"
    for folder in ("autodiff", "codegen", "examples"):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(tmp_path), str(source)], check=True, env=environment)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"autodiff/py.typed", "codegen/py.typed", "autodiff/examples/digits.py"} <= {*names}
    assert [n for n in names if n.endswith("/licenses/LICENSE")]
    page = {str(p.relative_to(source)) for p in (source / "autodiff" / "explorer").rglob("*") if p.is_file()}
    assert page <= {*names} and [n for n in names if n.endswith("/vendored/licenses/graphviz-EPL-2.0.txt")]
    assert {top for top in [n.partition("/")[0] for n in names] if ".dist-info" not in top} == {"autodiff", "codegen"}
    assert not [n for n in names if n.endswith((".pyc", ".o", ".so")) or "__pycache__" in n]
    stubs = {str(p.relative_to(source)) for p in source.glob("autodiff/**/*.pyi")}
    assert stubs <= {*names}

    installed = tmp_path / "installed"
    subprocess.run([*pip, "install", "--no-deps", "--target", str(installed), str(wheel)], check=True, env=environment)
    environment |= {"PYTHONPATH": str(installed), "AUTODIFF_CACHE_DIR": str(tmp_path / "cache")}

    def said(*arguments):
        command = [sys.executable, "-W", "error", "-m", "autodiff", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)

    assert said("--version").stdout == f"autodiff {ad.__version__}\n"
    assert said("doctor").returncode == 0
    assert "clone the repository" in said("bench").stderr
    assert "held-out accuracy" in said("demo").stdout
