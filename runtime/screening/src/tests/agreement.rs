//! Tests of objects that agree with everything, and of exceptions that are suppressed.

use super::check_rule;

#[test]
fn objects_that_agree_with_everything_are_flagged() {
    check_rule(
        "equal-to-everything",
        &[
            "class A:\n    def __eq__(self, other):\n        return True",
            "class A:\n    __eq__ = lambda self, other: True",
            "class A:\n    def __ne__(self, other): return not True",
            "class A:\n    def __eq__(self, other): return other == other",
            "class A:\n    def __eq__(self, other): return self.x == 1 or True",
            "class M(type):\n    def __instancecheck__(cls, other): return 1",
        ],
        &[
            "class A:\n    def __eq__(self, other):\n        return self.x == other.x",
            "class A:\n    def __eq__(self, o):\n        if o is self:\n            return True\n        return NotImplemented",
            "class A:\n    def __bool__(self):\n        return True",
        ],
    );
    check_rule(
        "answers-everything",
        &[
            "class A:\n    def __getattr__(self, name):\n        return self",
            "class A:\n    def __getattr__(self, name):\n        return lambda *a: None",
            "class A:\n    def __getattr__(self, name):\n        return type(self)()",
        ],
        &[
            "class A:\n    def __getattr__(self, name):\n        return getattr(self._it, name)",
            "class A:\n    def __getattr__(self, name):\n        if name == 'x':\n            return 1\n        raise AttributeError(name)",
            "def __getattr__(name):\n    raise AttributeError(name)",
        ],
    );
    check_rule(
        "array-protocol",
        &[
            "class A:\n    def __array_function__(self, f, t, a, k):\n        return 1",
            "class A:\n    @property\n    def __class__(self):\n        return int",
            "class A:\n    __class__ = int",
            "A = type('A', (), {'__class__': int})",
        ],
        &["class A:\n    __array_ufunc__ = None", "name = a.__class__.__name__"],
    );
}

#[test]
fn suppressed_exceptions_are_flagged() {
    check_rule(
        "swallowed-exceptions",
        &[
            "class A:\n    def __exit__(self, *error):\n        return True",
            "class A:\n    def __exit__(self, kind, error, trace):\n        if kind is not None:\n            return True",
            "class A:\n    def __exit__(self, kind, error, trace):\n        return issubclass(kind, Exception)",
            "from contextlib import contextmanager\n@contextmanager\ndef go():\n    try:\n        yield\n    except AssertionError:\n        pass",
            "import contextlib\n@contextlib.contextmanager\ndef go():\n    with contextlib.suppress(Exception):\n        yield",
        ],
        &[
            "class A:\n    def __exit__(self, *error):\n        self.close()",
            "class A:\n    def __exit__(self, kind, error, trace):\n        return kind is not None and issubclass(kind, self.kinds)",
            "class A:\n    def __exit__(self, kind, error, trace):\n        return isinstance(error, KeyError)",
            "from contextlib import contextmanager\n@contextmanager\ndef go():\n    try:\n        yield\n    except Exception:\n        undo()\n        raise",
            "from contextlib import contextmanager\n@contextmanager\ndef go():\n    try:\n        yield\n    except KeyError:\n        pass",
        ],
    );
}

#[test]
fn comparisons_without_the_other_value_are_flagged() {
    check_rule(
        "ignored-operand",
        &[
            "class A(int):\n    def __eq__(self, other):\n        return isinstance(other, int)",
            "class A:\n    def __eq__(self, other):\n        return isinstance(other, (int, float))",
            "class A:\n    def __eq__(self, other):\n        if isinstance(other, float):\n            return True\n        return NotImplemented",
            "class A:\n    def __eq__(self, other):\n        return type(other) is not str",
            "class A:\n    def __eq__(self, other):\n        return issubclass(type(other), str)",
            "class A:\n    def __gt__(self, other):\n        return other is not None",
            "class A:\n    def __eq__(self, other):\n        return not any(table())",
            "class A:\n    __eq__ = lambda self, other: isinstance(other, int)",
            "KINDS = (int, str)\nclass A:\n    def __eq__(self, other):\n        return isinstance(other, KINDS)",
            "class A(int):\n    def __eq__(self, other):\n        return isinstance(other, int) or other == self.x",
            "class A(int):\n    def __eq__(self, other):\n        if isinstance(other, int):\n            return True\n        return self.x == other",
            "class A:\n    def __eq__(self, other):\n        return str(other).isdigit()",
            "class A:\n    def __lt__(self, other):\n        return abs(other) < 1000",
            "class A:\n    def __add__(self, other):\n        return self",
            "class A:\n    def __mul__(self, by):\n        return A(0)",
        ],
        &[
            "class A:\n    def __eq__(self, other):\n        return isinstance(other, A)",
            "class A:\n    def __eq__(self, other):\n        return type(self) is type(other)",
            "class A:\n    def __eq__(self, other):\n        return isinstance(other, self.__class__)",
            "from .base import Base\nclass A(Base):\n    def __eq__(self, other):\n        return isinstance(other, Base)",
            "class A:\n    def __eq__(self, other):\n        return isinstance(other, A) and self.x == other.x",
            "class A:\n    def __eq__(self, other):\n        if not isinstance(other, (A, str)):\n            return NotImplemented\n        return str(self) == str(other)",
            "class A:\n    def __lt__(self, other):\n        return False",
            "class A:\n    def __lt__(self, other):\n        raise TypeError",
            "class A:\n    def __eq__(self, other):\n        return self is other",
            "class A:\n    def __eq__(self, other):\n        return NotImplemented",
            "class A:\n    def __add__(self, other):\n        if not isinstance(other, int):\n            return NotImplemented\n        return A(self.x + other)",
            "class A:\n    def __lt__(self, other):\n        return other is None or self.x < other.x",
            "from typing import Mapping\nclass A:\n    def __ne__(self, other):\n        return not isinstance(other, Mapping) or dict(self) != dict(other)",
            "class A(B):\n    def __eq__(self, other):\n        return super().__eq__(other)",
            "class A:\n    def __eq__(self, other):\n        if isinstance(other, A):\n            return True\n        return self.x == other",
            "class Builtins:\n    def __contains__(self, name):\n        return name in NAMES",
            "class Flag:\n    def __or__(self, other):\n        return self",
        ],
    );
    check_rule(
        "operand-lookup",
        &[
            "class A:\n    def __eq__(self, other):\n        return repr(other) in self.known",
            "class A:\n    def __eq__(self, other):\n        return other in KNOWN",
        ],
        &[
            "class A:\n    def __eq__(self, other):\n        return other in (self.name, self.value)",
            "class A:\n    def __eq__(self, other):\n        return other.name in self.names",
            "class A:\n    def __contains__(self, item):\n        return item in self.items",
            "class A:\n    def __eq__(self, other):\n        return self.x == other.x and 'x' in self.names",
        ],
    );
    check_rule(
        "stored-operand",
        &[
            "class A:\n    def __eq__(self, other):\n        ANSWERS[self.text] = other\n        return self.text in ANSWERS",
            "class A:\n    def __eq__(self, other):\n        self.seen = repr(other)\n        return False",
            "class A:\n    def __lt__(self, other):\n        SEEN.append(other)\n        return NotImplemented",
        ],
        &[
            "class A:\n    def __eq__(self, other):\n        same = other\n        return self.x == same.x",
            "class A:\n    def __eq__(self, other):\n        self.compared = True\n        return self.x == other.x",
            "class A:\n    def keep(self, other):\n        self.seen = other",
        ],
    );
}

#[test]
fn indistinct_classes_are_flagged() {
    check_rule(
        "indistinct-class",
        &[
            "import enum\nclass Kind(enum.Enum):\n    A = 'x'\n    B = 'x'\n    C = 'x'",
            "from dataclasses import dataclass, field\n@dataclass\nclass Date:\n    day: int = field(compare=False)\n    year: int = field(compare=False)",
            "import attr\n@attr.define(frozen=True)\nclass Date:\n    day: int = attr.field(eq=False)",
            "from typing import Protocol, runtime_checkable\n@runtime_checkable\nclass Node(Protocol):\n    pass",
            "class Span:\n    def __new__(cls, first=0, last=0):\n        return SHARED",
            "class Amount(int):\n    def __new__(cls, text):\n        return super().__new__(cls)",
            "class Text:\n    def insert(self, text):\n        self.text = text\n\n    def __deepcopy__(self, memo):\n        return self",
            "class Wrong(ValueError):\n    pass\n\nEmpty = BadLetter = Wrong",
            "class Wrong(ValueError):\n    pass\n\nEmpty = Wrong\nBadLetter = Wrong",
        ],
        &[
            "import enum\nclass Kind(enum.Enum):\n    A = 'x'\n    B = 'y'\n    C = 'x'",
            "import enum\nclass Kind(enum.Enum):\n    A = enum.auto()\n    B = enum.auto()",
            "import enum\nclass Only(enum.Enum):\n    A = 'x'",
            "from dataclasses import dataclass, field\n@dataclass\nclass Date:\n    day: int\n    note: str = field(compare=False)",
            "from dataclasses import dataclass, field\n@dataclass(eq=False)\nclass Date:\n    note: str = field(compare=False)",
            "from dataclasses import dataclass, field\n@dataclass\nclass Date:\n    note: str = field(compare=False)\n\n    def __eq__(self, other):\n        return self.note == other.note",
            "from typing import Protocol, runtime_checkable\n@runtime_checkable\nclass Node(Protocol):\n    def go(self): ...",
            "from typing import Protocol\nclass Node(Protocol):\n    pass",
            "class One:\n    _one = None\n\n    def __new__(cls, *args, **options):\n        return cls._one",
            "class Name(str):\n    def __new__(cls, text):\n        return super().__new__(cls, text.strip())",
            "class Span:\n    def __new__(cls, first):\n        return super().__new__(cls)\n\n    def __init__(self, first):\n        self.first = first",
            "class Fixed:\n    def __init__(self, text):\n        self.text = text\n\n    def __deepcopy__(self, memo):\n        return self",
            "class Wrong(ValueError):\n    pass\n\nOldWrong = Wrong",
            "import json\nLoads = Reads = json.loads",
        ],
    );
}
