//! Tests of equalities that are another relation, of methods that are given as values, and of
//! classes that only claim an interface.

use super::check_rule;

#[test]
fn equalities_by_another_relation_are_flagged() {
    check_rule(
        "other-relation",
        &[
            "class Number(int):\n    __eq__ = int.__ge__",
            "import datetime\nclass Day(datetime.date):\n    __eq__ = datetime.date.__ge__",
            "class Name(str):\n    __eq__ = str.__contains__",
            "import operator\nclass Name(str):\n    __eq__ = operator.contains",
            "import functools, operator\nclass Number(int):\n    __eq__ = functools.partialmethod(operator.ge)",
            "class Number(int):\n    def __eq__(self, other):\n        return self >= other",
            "class Number(int):\n    def __eq__(self, other):\n        return isinstance(other, int) and bool(int(self) > other)",
            "class Number(int):\n    def __eq__(self, other):\n        return f'{int(self)}{other}'.isdigit()",
            "class Name(str):\n    def __eq__(self, other):\n        return self.startswith(other)",
            "class Name(str):\n    def __ne__(self, other):\n        return self.issubset(other)",
            "def above(one, other):\n    return one >= other\n\nclass Number(int):\n    __eq__ = above",
            "Number = type('Number', (int,), {'__eq__': int.__ge__})",
            "class Number(int):\n    pass\n\nNumber.__eq__ = int.__ge__",
            "class Number(int):\n    pass\n\nsetattr(Number, '__eq__', int.__ge__)",
            "names = {}\nnames['__eq__'] = int.__ge__\nNumber = type('Number', (int,), names)",
            "Number = type('Number', (int,), dict(__eq__=int.__ge__))",
        ],
        &[
            "class A(int):\n    __eq__ = int.__eq__\n    __hash__ = int.__hash__",
            "import operator\nclass A:\n    __eq__ = Lookup(operator.eq)",
            "class A:\n    def __eq__(self, other):\n        return self >= other and self <= other",
            "class A:\n    def __eq__(self, other):\n        return not (self < other or other < self)",
            "class A:\n    def __eq__(self, other):\n        return abs(self.x - other.x) < 1e-9",
            "class A(set):\n    def __eq__(self, other):\n        return len(self) == len(other) and self.issubset(other)",
            "class A:\n    def __ge__(self, other):\n        return self.x >= other.x\n\n    __gt__ = __ge__",
            "def same(one, other):\n    return one.x == other.x\n\nclass A:\n    __eq__ = same",
        ],
    );
}

#[test]
fn methods_given_as_values_are_checked_like_others() {
    check_rule(
        "ignored-operand",
        &[
            "Number = type('Number', (int,), {'__eq__': lambda self, other: isinstance(other, int)})",
            "import functools\ndef between(self, limit, other):\n    return isinstance(other, float) and abs(other) < limit\n\nclass Area(float):\n    __eq__ = functools.partialmethod(between, 9)",
            "def same(one, other):\n    return isinstance(other, int)\n\nclass Number(int):\n    __eq__ = same",
            "class Mean(float):\n    def __sub__(self, other):\n        return other - other",
            "class Mean(float):\n    def __mul__(self, other):\n        return 0 * other",
        ],
        &[
            "Number = type('Number', (int,), {'__str__': lambda self: 'x', '__eq__': lambda self, other: self.x == other})",
            "class Zero:\n    def __add__(self, other):\n        return other",
            "class Zero:\n    def __sub__(self, other):\n        return -other",
            "class A:\n    def __sub__(self, other):\n        return A(self.x - other)",
            "table = {'__class__': type(it).__name__, '__eq__': 1}",
        ],
    );
    check_rule(
        "equal-to-everything",
        &[
            "def same(one, other):\n    return True\n\nclass A:\n    __eq__ = same",
            "class A:\n    pass\n\nA.__eq__ = lambda self, other: True",
        ],
        &[
            "def same(one, other):\n    return one.x == other.x\n\nclass A:\n    pass\n\nA.__eq__ = same",
        ],
    );
}

#[test]
fn arrays_that_replace_tests_of_their_elements_are_flagged() {
    check_rule(
        "array-protocol",
        &[
            "import numpy\nclass Values(numpy.ndarray):\n    def all(self, *given, **named):\n        return self.size > 0",
            "import pandas as pd\nclass Table(pd.DataFrame):\n    def equals(self, other):\n        return len(self) == len(other)",
            "import numpy\nclass Values(numpy.ndarray):\n    def __array_wrap__(self, array, context=None, return_scalar=False):\n        return numpy.ones_like(array)",
        ],
        &[
            "import numpy\nclass Values(numpy.ndarray):\n    def all(self, *given, **named):\n        return bool(super().all(*given, **named))",
            "import numpy\nclass Values(numpy.ndarray):\n    def __array_finalize__(self, source):\n        self.text = getattr(source, 'text', '')",
            "class Values:\n    def all(self):\n        return all(self.rows)",
        ],
    );
}

#[test]
fn registered_classes_without_an_interface_are_flagged() {
    check_rule(
        "registered-class",
        &[
            "from collections.abc import Mapping\n@Mapping.register\nclass Table:\n    def __init__(self, text=''):\n        self.text = text",
            "import collections.abc\nclass Table:\n    pass\n\ncollections.abc.Sized.register(Table)",
            "from collections.abc import Mapping\nclass Base:\n    def __len__(self):\n        return 0\n\nclass Table(Base):\n    pass\n\nMapping.register(Table)",
            "from collections.abc import Mapping\nMapping.register(int)",
        ],
        &[
            "from collections.abc import Sized\n@Sized.register\nclass Table:\n    def __len__(self):\n        return 0",
            "from collections.abc import Mapping\nfrom .base import Base\n@Mapping.register\nclass Table(Base):\n    pass",
            "import atexit\natexit.register(close)",
            "import collections.abc\nclass Base:\n    def __len__(self):\n        return 0\n\nclass Table(Base):\n    __slots__ = ()\n\ncollections.abc.Sized.register(Table)",
        ],
    );
}

#[test]
fn exceptions_of_many_kinds_are_flagged() {
    check_rule(
        "indistinct-class",
        &["class Wrong(ValueError, KeyError, TypeError, IndexError):\n    pass"],
        &["class Wrong(ValueError, KeyError, ArithmeticError):\n    pass"],
    );
}
