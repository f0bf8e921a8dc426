"""The test engine: pytest, pluggy, unittest and the import system, as they were before any graded code ran."""

import importlib.machinery
import sys
import types
import zipimport

from .bytecode import inner
from .values import DICT_OF, is_class, places, unwrapped

ENGINE = ("_pytest.", "pluggy.", "unittest.")
ENGINES = (
    "_pytest",
    "pluggy",
    "pytest",
    "unittest",
    "importlib",
    "importlib.util",
    "importlib.machinery",
    "_frozen_importlib",
    "_frozen_importlib_external",
    "zipimport",
)
# Classes that find and load modules in folders and archives.
IMPORTERS = (
    importlib.machinery.FileFinder,
    importlib.machinery.SourceFileLoader,
    importlib.machinery.SourcelessFileLoader,
    importlib.machinery.ExtensionFileLoader,
    zipimport.zipimporter,
)


def holders():
    """Yields the modules of pytest, pluggy, unittest and the import system, and the classes that they define."""
    for key, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType) and (key.startswith(ENGINE) or key in ENGINES):
            yield key, module
            for value in list(vars(module).values()):
                if is_class(value) and value.__module__ == key:
                    yield key + "." + value.__qualname__, value


class Engine:
    """The engine's original code objects and classes, by identity, because file names can be forged."""

    def __init__(self, checks, sources, own):
        self._checks, self._sources = checks, sources
        self.codes, self.classes = {}, {}
        # Functions of this package replace some of the engine's functions.
        self._own_files = frozenset(known["__file__"] for known in own)
        self.files = set()

    def remember(self):
        """Records the engine, with the functions that this package put into it."""
        self.files.update(self._own_files)
        for _, holder in holders():
            for value in [holder] + list(vars(holder).values()):
                if is_class(value) and self._claims(value):
                    self.classes[id(value)] = value
                found = [value.fget, value.fset] if isinstance(value, property) else [unwrapped(value)]
                for function in found:
                    while isinstance(function, types.FunctionType):
                        for code in inner(function.__code__):
                            self.codes[id(code)] = code
                        self.files.add(function.__code__.co_filename)
                        function = vars(function).get("__wrapped__")

    def is_own_class(self, kind):
        """Whether a class that claims to belong to pytest or its libraries really does."""
        return self.classes.get(id(kind)) is kind or not self._claims(kind)

    @staticmethod
    def _claims(kind):
        module = DICT_OF(kind).get("__module__")
        return type(module) is str and (module.startswith(ENGINE) or module in ENGINES)

    def places(self, value):
        """Returns the files of a value, or an empty name if it only claims to belong to pytest or its libraries."""
        if is_class(value):
            return places(value) if self.is_own_class(value) else [""]
        function = unwrapped(value)
        if isinstance(function, types.FunctionType):
            code = function.__code__
            # A class may create a method when it is instantiated. The code of that method is in the class's file.
            if code.co_filename in self.files and "objects" in self._checks:
                if self.codes.get(id(code)) is not code and not self._sources.is_written(function):
                    return [""]
            return places(value)
        return places(value) if self.is_own_class(type(value)) else [""]
