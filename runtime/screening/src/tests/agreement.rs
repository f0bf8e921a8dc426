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
