"""Reads and compares values without calling code that they define."""

import functools
import operator
import sys
import types

BINDINGS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    type,
    staticmethod,
    classmethod,
    property,
)
WRAPPERS = (staticmethod, classmethod, property)
# Read the attributes of a class itself, even if its metaclass overrides access.
NAME_OF = type.__dict__["__name__"].__get__
DICT_OF = type.__dict__["__dict__"].__get__
MRO_OF = type.__dict__["__mro__"].__get__
# Attributes that pytest itself sets on a test although its class has the same attribute.
SET_BY_PYTEST = frozenset(("_obj", "_instance", "_request", "funcargs", "fixturenames", "keywords", "stash", "_store"))
FUNCTION = types.FunctionType
# Types of callables that can replace a function without containing any code.
REPLACING = (functools.partial, type("".join), type(iter("").__next__), type(operator.itemgetter(0)), bool)
# Names that every module has, including the builtins module.
OF_EVERY_MODULE = frozenset(("__name__", "__doc__", "__package__", "__loader__", "__spec__"))
# Code of functions that this package installs in classes of pytest and unittest.
OWN_CODES = set()


def is_class(value):
    # Unlike `type()`, `isinstance` believes `__class__`, which `list[int]` forwards to `list` before Python 3.11.
    return issubclass(type(value), type)


def text(value):
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")


def unwrapped(value):
    if isinstance(value, (staticmethod, classmethod, types.MethodType)):
        value = value.__func__
    if isinstance(value, property):
        value = value.fget
    return value


def state(value):
    """Returns the parts of a function that determine its behavior."""
    if type(value) is not FUNCTION:
        value = unwrapped(value)
    if isinstance(value, FUNCTION):
        return value, value.__code__, value.__defaults__, value.__kwdefaults__
    return (value,)


def same(one, other):
    return len(one) == len(other) and all(map(operator.is_, one, other))


def called(function, *arguments):
    return function(*arguments)


def places(value):
    """Returns the files that define a value, based on its compiled code. `__module__` is not reliable, because any
    code can set it. A forged file name must agree with the module that the code runs in."""
    value = unwrapped(value)
    if isinstance(value, types.ModuleType):
        return [text(vars(value).get("__file__") or "")]
    if isinstance(value, types.FunctionType):
        file = value.__code__.co_filename
        module = value.__globals__.get("__file__")
        if not file.startswith("/"):
            return [text(module or file)]
        return sorted({text(file), text(module)}) if isinstance(module, str) else [text(file)]
    holder = value if is_class(value) else type(value)
    found = set()
    for base in MRO_OF(holder)[:-1]:
        for member in list(DICT_OF(base).values()):
            member = unwrapped(member)
            if isinstance(member, types.FunctionType) and member.__code__ not in OWN_CODES:
                file = text(member.__code__.co_filename)
                if file.startswith("/"):
                    found.add(file)
    if not found:
        name = DICT_OF(holder).get("__module__")
        module = sys.modules.get(name) if isinstance(name, str) else None
        found.add(text(getattr(module, "__file__", None) or ""))
    return sorted(found)


def class_overrides(thing):
    """Returns an object's own attributes that take precedence over callable attributes of its class."""
    kind, found = type(thing), {}
    for name, value in list(getattr(thing, "__dict__", {}).items()):
        if name in SET_BY_PYTEST:
            continue
        for base in kind.__mro__:
            if name in vars(base):
                if isinstance(vars(base)[name], BINDINGS):
                    found[name] = value
                break
    return found
