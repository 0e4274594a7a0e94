"""Every example runs: those of docstrings, of docs/python.md, and of the README."""

import ast
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
MODULES = ["table", "store", "dedup", "torch"] + ["_device_arrays", "_device_strings"] * HAS_GPU
PACKAGE = pathlib.Path(isotherm.__file__).parent


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    if name == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    module = importlib.import_module(f"isotherm.{name}")
    result = doctest.testmod(module, extraglobs={"np": np, "isotherm": isotherm})
    assert result.attempted >= 3 and result.failed == 0


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_pages(page, tmp_path, monkeypatch):
    """The blocks of a page run one after the other, in one program."""
    monkeypatch.chdir(tmp_path)
    text = (REPOSITORY / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    names = {}
    for block in blocks:
        needed = re.match(r"# needs (?:a (GPU)|(\w+)(\.cuda)?)", block)
        if needed and needed[2] and importlib.util.find_spec(needed[2]) is None:
            continue
        if needed and (needed[1] or needed[3]) and (IS_FAKE or not HAS_GPU):
            continue
        exec(compile(block, page, "exec"), names)


def test_every_verb_has_a_docstring_with_an_example():
    kinds = [isotherm.Table, isotherm.Store, isotherm.Pipeline, isotherm.dedup.Seen, isotherm.dedup.Join]
    for kind in kinds + [isotherm.store._Requests]:
        for name, member in vars(kind).items():
            if not name.startswith("_") and (callable(member) or isinstance(member, classmethod)):
                assert ">>>" in (member.__doc__ or ""), f"{kind.__name__}.{name}"
    for kind in kinds + [isotherm.AsyncStore, isotherm.DeviceArray, isotherm.DeviceStrings,
                         isotherm.dedup.unique]:
        assert kind.__doc__, kind
    assert "__arrow_c_array__" in isotherm.Store.get_many.__doc__


def test_modules_import_each_other_one_way():
    """Wherever an import stands; less the package itself, which imports all."""
    wanted = {}
    for path in PACKAGE.glob("*.py"):
        tree = ast.parse(path.read_text())
        wanted[path.stem] = {
            part for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 1
            for part in ([node.module] if node.module else [name.name for name in node.names])}
    del wanted["__init__"]
    while wanted:
        last = {name for name, parts in wanted.items() if not parts & wanted.keys()}
        assert last, f"a circle among {sorted(wanted)}"
        wanted = {name: parts for name, parts in wanted.items() if name not in last}


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
