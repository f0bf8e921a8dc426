//! Golden tests for the carver. They compare the removed code, the remaining code, and errors.

#![expect(clippy::unwrap_used, reason = "test helpers panic on failure")]

use std::{collections::BTreeMap, fs, path::Path};

use pretty_assertions::assert_eq;
use proctor_carve::{CarveError, CarveOptions, Carving, Kind, carve, carve_with_options};
use tempfile::TempDir;

fn create_tree(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn targets(list: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
    let owned = |paths: &[&str]| paths.iter().map(|&path| path.to_owned()).collect();
    list.iter().map(|(file, paths)| ((*file).to_owned(), owned(paths))).collect()
}

fn try_carve(files: &[(&str, &str)], list: &[(&str, &[&str])]) -> Result<Carving, CarveError> {
    let dir = create_tree(files);
    let carving = carve(dir.path(), &targets(list))?;
    assert_mask_is_reversible(&carving);
    Ok(carving)
}

/// Checks that the mask applies in both directions, byte for byte.
fn assert_mask_is_reversible(carving: &Carving) {
    for (path, (before, after)) in &carving.files {
        let patch = diffy::create_patch(before, after).to_string();
        let patch = diffy::Patch::from_str(&patch).unwrap();
        assert_eq!(&diffy::apply(before, &patch).unwrap(), after, "{path}");
        assert_eq!(&diffy::apply(after, &patch.reverse()).unwrap(), before, "{path}");
    }
}

/// Carves objects out of a single module and returns the module's remaining text.
fn carve_text(text: &str, paths: &[&str]) -> String {
    let carving = try_carve(&[("m.py", text)], &[("m.py", paths)]).unwrap();
    carving.files["m.py"].1.clone()
}

fn needed_error(files: &[(&str, &str)], list: &[(&str, &[&str])]) -> (String, usize, String) {
    match try_carve(files, list) {
        Err(CarveError::Needed { file, line, name }) => (file, line, name),
        other => panic!("expected a refusal: {other:?}"),
    }
}

#[test]
fn carve_removes_decorators_and_comments_with_function() {
    let text = "\
import functools

X = 1


# What f is about.
@functools.lru_cache(
    maxsize=None,
)
def f(a,
      b=2):
    \"\"\"Doc.\"\"\"
    return a
    # afterthought


# What g is about.
def g():
    return X
";
    let rest = "import functools\n\nX = 1\n\n\n# What g is about.\ndef g():\n    return X\n";
    assert_eq!(carve_text(text, &["f"]), rest);
    assert_eq!(
        carve_text(text, &["g"]).lines().last(),
        Some("    # afterthought"),
        "no blank lines are left at the end of the module"
    );
}

#[test]
fn carve_removes_all_overloads_and_lists_them_in_the_stub() {
    let text = "\
from typing import overload

@overload
def f(a: int) -> int: ...
@overload
def f(a: str) -> str: ...
def f(a):
    return a

def g(): return 1
";
    let carving = try_carve(&[("m.py", text)], &[("m.py", &["f"])]).unwrap();
    assert_eq!(carving.files["m.py"].1, "from typing import overload\n\ndef g(): return 1\n");
    assert_eq!(carving.objects.len(), 1);
    assert_eq!(
        carving.objects[0].stub,
        "@overload\ndef f(a: int) -> int:\n    ...\n\n\
         @overload\ndef f(a: str) -> str:\n    ...\n\n\
         def f(a):\n    ...\n"
    );
}

#[test]
fn carve_removes_aliases_of_aliases() {
    let text = "\
__all__ = ['f', 'g', 'h', 'k']

def f():
    def local(): pass
    alias = local
    return alias

g = h = f
j = g; k = 2
";
    let carving = try_carve(&[("m.py", text)], &[("m.py", &["f"])]).unwrap();
    assert_eq!(carving.files["m.py"].1, "__all__ = ['k']\n\npass; k = 2\n");
    assert_eq!(carving.objects[0].aliases, ["g", "h", "j"]);
}

#[test]
fn carve_keeps_methods_of_the_same_name_in_other_classes() {
    let text = "\
class A:
    def run(self):
        return super().run()

class B(A):
    limit = 3

    def run(self):
        return 1

    def other(self):
        return 2

def run(): pass
";
    let carving = try_carve(&[("m.py", text)], &[("m.py", &["B.run"])]).unwrap();
    let rest = text.replace("    def run(self):\n        return 1\n\n", "");
    assert_eq!(carving.files["m.py"].1, rest);
    assert_eq!(carving.objects[0].kind, Kind::Method);
    assert_eq!(carving.objects[0].stub, "def run(self):\n    ...\n");
    assert!(carve_text(text, &["run"]).contains("class B(A):\n    limit = 3\n"));
}

#[test]
fn carve_removes_property_with_setter() {
    let text = "\
class A:
    y = 0

    @property
    def x(self):
        return self._x

    @x.setter
    def x(self, value):
        self._x = value

    @x.deleter
    def x(self):
        del self._x
";
    assert_eq!(carve_text(text, &["A.x"]), "class A:\n    y = 0\n");
    let other = text.replace("def x(self, value)", "def set_x(self, value)");
    let (_, line, name) = needed_error(&[("m.py", &other)], &[("m.py", &["A.x"])]);
    assert_eq!((line, name.as_str()), (8, "A.x"));
}

#[test]
fn carve_finds_async_and_nested_definitions() {
    let text = "\
async def f(x):
    async with x as y:
        def inner(a):
            return a
        return inner(y)

def outer():
    class C:
        def m(self): return 1
    return C
";
    let done = carve_text(text, &["f.inner", "outer.C.m"]);
    assert_eq!(
        done,
        "async def f(x):\n    async with x as y:\n        return inner(y)\n\n\
         def outer():\n    class C:\n        pass\n    return C\n"
    );
    assert!(!carve_text(text, &["f"]).contains("async"));
}

#[test]
fn carve_inserts_pass_into_empty_block() {
    let text = "\
import sys

if sys.version_info > (3,):
    # new
    def f():
        return 1
elif sys.platform == 'x':
    def f(): return 2
else:
    def f():
        return 3

try:
    import fast
except ImportError:
    def g(): return 1

class A(
    object,
):

    def only(self):
        return (1,
2)


class B: x = 1
";
    assert_eq!(
        carve_text(text, &["f", "g", "A.only"]),
        "\
import sys

if sys.version_info > (3,):
    pass
elif sys.platform == 'x':
    pass
else:
    pass

try:
    import fast
except ImportError:
    pass

class A(
    object,
):

    pass


class B: x = 1
"
    );
}

#[test]
fn carve_keeps_fields_abstract_bases_and_registries() {
    let text = "\
import abc
from dataclasses import dataclass, field

HANDLERS = {}

def register(name):
    return lambda f: HANDLERS.setdefault(name, f)

@register('a')
def handler(): return 1

@dataclass(frozen=True)
class Point:
    x: int
    tags: list = field(default_factory=list)

    def far(self):
        return self.x > 9

class Base(abc.ABC):
    @property
    @abc.abstractmethod
    def name(self): ...

    @abc.abstractmethod
    def run(self): ...
";
    let paths = ["handler", "Point.far", "Base.run", "Base.name"];
    let carving = try_carve(&[("m.py", text)], &[("m.py", &paths)]).unwrap();
    assert_eq!(
        carving.files["m.py"].1,
        "\
import abc
from dataclasses import dataclass, field

HANDLERS = {}

def register(name):
    return lambda f: HANDLERS.setdefault(name, f)

@dataclass(frozen=True)
class Point:
    x: int
    tags: list = field(default_factory=list)

class Base(abc.ABC):
    pass
"
    );
    let stubs: BTreeMap<&str, &str> =
        carving.objects.iter().map(|it| (it.path.as_str(), it.stub.as_str())).collect();
    assert_eq!(stubs["Base.run"], "@abc.abstractmethod\ndef run(self):\n    ...\n");
    assert_eq!(stubs["handler"], "@register('a')\ndef handler():\n    ...\n");
    let carving = try_carve(&[("m.py", text)], &[("m.py", &["Point"])]).unwrap();
    assert_eq!(
        carving.objects[0].stub,
        "@dataclass(frozen=True)\nclass Point:\n    x: int\n    tags: list = field(default_factory=list)\n\n    \
         def far(self):\n        ...\n"
    );
    let (_, line, name) = needed_error(&[("m.py", text)], &[("m.py", &["register"])]);
    assert_eq!((line, name.as_str()), (9, "register"));
}

#[test]
fn carve_keeps_export_of_name_that_is_still_bound() {
    let text = "\
__all__ = ['f']

try:
    from fast import f
except ImportError:
    def f(): return 1

TABLE = [f]
";
    let done = carve_text(text, &["f"]);
    assert!(done.starts_with("__all__ = ['f']\n"), "{done}");
    assert!(done.contains("except ImportError:\n    pass\n"), "{done}");
}

#[test]
fn carve_updates_every_form_of_dunder_all() {
    let text = "\
__all__ = (
    'f',  # note
    'keep',
)
__all__ += ['g']
__all__.extend(['h', 'keep2'])
__all__.append('k')
def f(): pass
def g(): pass
def h(): pass
def k(): pass
def keep(): pass
def keep2(): pass
";
    assert_eq!(
        carve_text(text, &["f", "g", "h", "k"]),
        "__all__ = (\n    'keep',\n)\n__all__ += []\n__all__.extend(['keep2'])\n\
         def keep(): pass\ndef keep2(): pass\n"
    );
    let pair = "__all__ = ('a', 'b')\ndef a(): pass\ndef b(): pass\n";
    assert_eq!(carve_text(pair, &["b"]), "__all__ = ('a',)\ndef a(): pass\n");
    assert_eq!(carve_text(pair, &["a"]), "__all__ = ('b',)\ndef b(): pass\n");
    assert_eq!(carve_text(pair, &["a", "b"]), "__all__ = ()\n");
}

#[test]
fn carve_removes_reexports_from_all_package_files() {
    let files = [
        (
            "pkg/__init__.py",
            "from .sub import (\n    f as eff,  # the best\n    keep,\n)\n__all__ = ['eff', 'keep']\n",
        ),
        (
            "pkg/sub/__init__.py",
            "from .mod import *\nfrom pkg.sub.mod import f, keep\n__all__ = ['f', 'keep']\n",
        ),
        ("pkg/sub/mod.py", "def f(): pass\ndef keep(): pass\n"),
        ("pkg/late.py", "def use():\n    from .sub import f\n    return f()\n"),
    ];
    let carving = try_carve(&files, &[("pkg/sub/mod.py", &["f"])]).unwrap();
    let text = |path: &str| carving.files[path].1.as_str();
    assert_eq!(text("pkg/__init__.py"), "from .sub import (\n    keep,\n)\n__all__ = ['keep']\n");
    assert_eq!(
        text("pkg/sub/__init__.py"),
        "from .mod import *\nfrom pkg.sub.mod import keep\n__all__ = ['keep']\n"
    );
    assert!(!carving.files.contains_key("pkg/late.py"));
    assert!(carving.mask().contains("diff --git a/pkg/sub/mod.py b/pkg/sub/mod.py\n--- a/pkg/"));
}

#[test]
fn carve_rejects_import_time_use_in_same_module() {
    let module = "def f(): pass\n";
    let cases = [
        ("REG = f()\n", 1),
        ("@f\ndef g(): pass\n", 1),
        ("def g(x=f): pass\n", 1),
        ("class C:\n    x = f()\n", 2),
        ("class C(f): pass\n", 1),
        ("def g(x: f): pass\n", 1),
        ("g = lambda x=f: x\n", 1),
        ("h = staticmethod(f)\n", 1),
    ];
    for (tail, line) in cases {
        let text = format!("{module}\n{tail}");
        let found = needed_error(&[("m.py", &text)], &[("m.py", &["f"])]);
        assert_eq!(found, ("m.py".into(), line + 2, "f".into()), "{tail}");
    }
    for fine in [
        "def g(): return f()\n",
        "g = lambda x: f(x)\n",
        "from __future__ import annotations\ndef g(x: f): pass\n",
        "class C:\n    f = 1\n    y = f\n",
        "if TYPE_CHECKING:\n    x = [f]\n",
    ] {
        // A `from __future__` import must be at the start of the file.
        let text = format!("{fine}\n{module}");
        assert_eq!(carve_text(&text, &["f"]), fine, "{fine}");
    }
}

#[test]
fn carve_rejects_import_time_use_in_other_modules() {
    let files = [
        ("src/p/__init__.py", ""),
        ("src/p/a.py", "def f(): pass\ndef g(): pass\n"),
        ("src/p/b.py", "import os\nfrom .a import f\n\ndef use(): return f()\n"),
    ];
    let found = needed_error(&files, &[("src/p/a.py", &["f"])]);
    assert_eq!(found, ("src/p/b.py".into(), 2, "f".into()));
    assert!(try_carve(&files, &[("src/p/a.py", &["g"])]).is_ok());

    for (text, line) in [
        ("from . import a\nX = a.f\n", 2),
        ("import p.a as q\nclass C:\n    x = q.f()\n", 3),
        ("import p.a\n@p.a.f\ndef g(): pass\n", 2),
    ] {
        let files = [files[0], files[1], ("src/p/b.py", text)];
        let (file, found, _) = needed_error(&files, &[("src/p/a.py", &["f"])]);
        assert_eq!((file.as_str(), found), ("src/p/b.py", line), "{text}");
    }
    let guarded = "try:\n    from .a import f\nexcept ImportError:\n    f = None\n";
    let files = [files[0], files[1], ("src/p/b.py", guarded)];
    assert!(try_carve(&files, &[("src/p/a.py", &["f"])]).is_ok());
}

#[test]
fn stub_keeps_every_kind_of_parameter() {
    let text = "\
class C:
    '''Class doc.'''
    size: int = 3
    _hidden = 1

    def __init__(self, a: \"int\", b=(1, 2), /, c: dict[str, int] = {'a': 1}, *args: int,
                 d, e: str = ':', **kw) -> None:  # note: here
        '''Doc with
        two lines.'''
        self.a = a

    @classmethod
    async def make(cls, *, flag=lambda: {}): return cls()

    def _private(self): pass
";
    let carving = try_carve(&[("m.py", text)], &[("m.py", &["C"])]).unwrap();
    assert_eq!(carving.objects[0].kind, Kind::Class);
    assert_eq!(
        carving.objects[0].stub,
        "\
class C:
    '''Class doc.'''
    size: int = 3

    def __init__(self, a: \"int\", b=(1, 2), /, c: dict[str, int] = {'a': 1}, *args: int,
                 d, e: str = ':', **kw) -> None:
        '''Doc with
        two lines.'''
        ...

    @classmethod
    async def make(cls, *, flag=lambda: {}):
        ...
"
    );
    let carving = try_carve(&[("m.py", text)], &[("m.py", &["C.make"])]).unwrap();
    assert_eq!(
        carving.objects[0].stub,
        "@classmethod\nasync def make(cls, *, flag=lambda: {}):\n    ...\n"
    );
}

#[test]
fn carve_keeps_crlf_and_missing_final_newline() {
    let text = "class A:\r\n    def f(self):\r\n        return 1\r\n\r\nx = 1";
    assert_eq!(carve_text(text, &["A.f"]), "class A:\r\n    pass\r\n\r\nx = 1");
    assert_eq!(carve_text("x = 1\ndef f(): pass", &["f"]), "x = 1\n");
}

#[test]
fn carve_keeps_strings_that_look_like_comments() {
    let text = "X = '''\n# not a comment\n'''\ndef f(): pass\nY = '''\n# '''\ndef g(): pass\n";
    assert_eq!(carve_text(text, &["f"]), text.replace("def f(): pass\n", ""));
    assert_eq!(carve_text(text, &["g"]), text.replace("def g(): pass\n", ""));
}

#[test]
fn unknown_path_error_suggests_nearest_name() {
    let error =
        try_carve(&[("m.py", "class A:\n    def run(self): pass\n")], &[("m.py", &["A.rnu"])])
            .unwrap_err();
    assert!(error.to_string().contains("did you mean `A.run`?"), "{error}");
    let error = try_carve(&[("m.py", "def f(:\n")], &[("m.py", &["f"])]).unwrap_err();
    assert!(matches!(error, CarveError::Syntax { .. }), "{error}");
    let error = carve(Path::new("/"), &targets(&[("absent.py", &["f"])])).unwrap_err();
    assert!(matches!(error, CarveError::Unreadable { .. }), "{error}");
}

#[test]
fn importers_option_removes_imports_from_other_modules() {
    let files = [
        ("p/__init__.py", ""),
        ("p/a.py", "def f(): pass\ndef g(): pass\n"),
        ("p/b.py", "from .a import f, g  # both\n\ndef use(): return f()\n"),
        ("p/c.py", "from p.b import f as eff\n\ndef use(): return eff()\n"),
        ("tests/test_a.py", "from p.a import g\n"),
    ];
    let dir = create_tree(&files);
    let carve = |wanted_list: &[(&str, &[&str])], watched: &[String]| {
        let options =
            CarveOptions { edit_importers: true, protected_files: watched, modules: None };
        carve_with_options(dir.path(), &targets(wanted_list), options)
    };
    let carving = carve(&[("p/a.py", &["f"])], &["tests/test_a.py".to_owned()]).unwrap();
    assert_mask_is_reversible(&carving);
    assert_eq!(carving.files["p/b.py"].1, "from .a import g  # both\n\ndef use(): return f()\n");
    assert_eq!(carving.files["p/c.py"].1, "def use(): return eff()\n");
    // The error names the protected file that imports removed code.
    let refused = carve(&[("p/a.py", &["g"])], &["tests/test_a.py".to_owned()]);
    match refused {
        Err(CarveError::Needed { file, line, name }) => {
            assert_eq!((file.as_str(), line, name.as_str()), ("tests/test_a.py", 1, "g"));
        }
        other => panic!("expected a refusal: {other:?}"),
    }
    assert!(carve(&[("p/a.py", &["g"])], &[]).is_ok());
}

#[test]
fn carve_keeps_tests_inside_the_package_unchanged() {
    let files = [
        ("p/__init__.py", "from .a import f\n"),
        ("p/a.py", "def f(): pass\ndef g(): pass\n"),
        ("p/tests/__init__.py", ""),
        ("p/tests/test_a.py", "from ..a import f\nfrom p import f as eff\n"),
        ("p/tests/test_b.py", "from ..a import g\n"),
    ];
    let dir = create_tree(&files);
    let modules = ["p/__init__.py", "p/a.py"].map(str::to_owned).into();
    let watched = ["p/tests/test_b.py".to_owned()];
    let options =
        CarveOptions { edit_importers: true, protected_files: &watched, modules: Some(&modules) };
    let carving = carve_with_options(dir.path(), &targets(&[("p/a.py", &["f"])]), options).unwrap();
    let changed: Vec<&str> = carving.files.keys().map(String::as_str).collect();
    assert_eq!(changed, ["p/__init__.py", "p/a.py"]);
    // Code that another test file imports cannot be removed.
    let refused = carve_with_options(dir.path(), &targets(&[("p/a.py", &["g"])]), options);
    assert!(matches!(refused, Err(CarveError::Needed { .. })), "{refused:?}");
}
