"""Every example runs: those of docstrings, of docs/python.md, and of the README."""

import doctest
import importlib
import pathlib
import re
import typing

import numpy as np
import pytest

from conftest import HAS_GPU, IS_FAKE

import isotherm

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
MODULES = ["table", "store", "dedup"]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    module = importlib.import_module(f"isotherm.{name}")
    result = doctest.testmod(module, extraglobs={"np": np, "isotherm": isotherm})
    assert result.attempted > 3 and result.failed == 0


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_pages(page, tmp_path, monkeypatch):
    """The blocks of a page run one after the other, in one program."""
    monkeypatch.chdir(tmp_path)
    text = (REPOSITORY / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    names = {}
    for block in blocks:
        needed = re.match(r"# needs (\w+)(\.cuda)?", block)
        if needed and importlib.util.find_spec(needed[1]) is None:
            continue
        if needed and needed[2] and (IS_FAKE or not HAS_GPU):
            continue
        exec(compile(block, page, "exec"), names)


def test_every_verb_has_a_docstring():
    for kind in (isotherm.Table, isotherm.Store, isotherm.Pipeline, isotherm.AsyncStore):
        for name, member in vars(kind).items():
            if not name.startswith("_") and callable(member):
                assert member.__doc__, f"{kind.__name__}.{name}"


def test_the_stub_names_what_the_extension_has():
    stub = pathlib.Path(isotherm.__file__).with_name("_core.pyi")
    text = stub.read_text()
    for kind in (isotherm._core.FixedTable, isotherm._core.Store):
        for name in vars(kind):
            if not name.startswith("_"):
                assert re.search(rf"def {name}\(self", text), name
    assert typing.get_type_hints(isotherm.Item)["version"] is int


def test_the_bench_runs_and_checks_its_replies(capsys, monkeypatch):
    from isotherm import bench

    monkeypatch.setattr(bench, "gpu_count", lambda: 0)
    monkeypatch.setattr(bench._devices, "why_no_gpu", lambda: "no driver")
    bench.main(["--keys", "70000", "--rows", "2000", "--runs", "1"])
    printed = capsys.readouterr().out
    assert "NumPy" in printed and "get of 1 key" in printed and "over lookups in a dict" in printed
    assert "no driver" in printed
