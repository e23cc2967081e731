"""The stubs say what the module has, and what is public is documented."""

import ast
import inspect
from pathlib import Path

import pytest

import hikyaku
from hikyaku import _native

STUBS = ast.parse(Path(hikyaku.__file__).with_name("_native.pyi").read_text())


def stubbed(body):
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {node.name: node for node in body if isinstance(node, kinds)}


def test_the_package_is_typed():
    assert Path(hikyaku.__file__).with_name("py.typed").exists()


def test_every_name_of_the_module_is_in_the_stubs():
    names = {name for name in vars(_native) if not name.startswith("__")}
    assert set(stubbed(STUBS.body)) == names


@pytest.mark.parametrize("name", ["World", "Request", "Received", "Exchange", "Window", "Shared"])
def test_every_method_is_in_the_stubs_with_its_parameters(name):
    members = stubbed(stubbed(STUBS.body)[name].body)
    native = {k: v for k, v in vars(getattr(_native, name)).items() if not k.startswith("__")}
    assert set(native) == set(members) - {"__new__"}
    for member, value in native.items():
        if not callable(value):
            continue
        arguments = members[member].args
        declared = [a.arg for a in arguments.args]
        assert list(inspect.signature(value).parameters) == declared, member


def test_what_is_public_says_what_it_does():
    for name in hikyaku.__all__:
        value = getattr(hikyaku, name)
        if not callable(value):
            continue
        assert inspect.getdoc(value), name
        members = vars(value).items() if inspect.isclass(value) else []
        for member, function in members:
            if not member.startswith("_"):
                assert inspect.getdoc(function), f"{name}.{member}"
