//! Golden tests for tracing. They compare the calls traced in a real run with the scanned objects.

use std::{collections::BTreeSet, fs, process::Command};

use super::{
    calls::Calls,
    graph::FileGraph,
    notes::FunctionNotes,
    objects::Objects,
    observe::COLLECTOR_SCRIPTS,
    records::Record,
    traverse::{RemovalBounds, extract_objects},
};

const MODULE_CODE: &str = r#"
import abc, dataclasses, functools, subprocess, sys, threading
import third

class A:
    def __init__(self): self.run()
    def run(self): return 1

class B(A):
    def __init__(self):
        super().__init__()
    def run(self):
        return helper()
    @property
    def x(self):
        return helper()
    @x.setter
    def x(self, value):
        fact(value)

def helper(): return 2

def fact(n):
    return 1 if n < 2 else n * fact(n - 1)

def even(n): return n == 0 or odd(n - 1)
def odd(n): return n != 0 and even(n - 1)

def deco(f):
    @functools.wraps(f)
    def wrapper(*args):
        return f(*args)
    return wrapper

@deco
def decorated(): return helper()

def by_lambda(): return (lambda: helper())()
def by_generator(): return sum(fact(x) for x in [1, 2])
def by_others(): return third.apply(helper)

def nested():
    def inner(): return helper()
    return inner()

async def waited(): return helper()
def waits():
    try:
        waited().send(None)
    except StopIteration:
        pass

def target(): return 3
def in_thread():
    thread = threading.Thread(target=target)
    thread.start()
    thread.join()

def apart(): return 4
def in_child():
    subprocess.run([sys.executable, "-c", "import m; m.apart()"], check=True)

def in_program():
    subprocess.run([sys.executable, "-m", "m"], check=True)
def as_program(): return 5
def in_import():
    import late
    late.used()

def built(): return registered()
def registered(): return []
TABLE = built()

REGISTRY = {}
def register(name):
    def keep(f):
        REGISTRY[name] = f
        return f
    return keep
@register("a")
def handler(): return helper()
def by_registry(): return REGISTRY["a"]()

class Base(abc.ABC):
    @abc.abstractmethod
    def made(self): return helper()
    def shown(self): return self.made()
class Concrete(Base):
    def made(self): return super().made()
def by_abstract(): return Concrete().shown()

@dataclasses.dataclass
class Data:
    n: int = 0
    def __post_init__(self): fact(self.n)
    def doubled(self): return helper() * self.n
def by_data(): return Data(1).doubled()

class Kind:
    def __init__(self, size=0): self.size = size
class Wrong(Exception): pass
def typed(a, b: int = 1, *rest, kind=None, **more) -> list: return [a]
def counted(n):
    yield n
def refused(x):
    if x is not None:
        checked(x)
def checked(x):
    raise Wrong(x)
async def answered(text): return text.encode()
def many(x): return x
def by_types():
    class Local(Kind): pass
    typed(1, kind=Local())
    typed("a", kind=None)
    list(counted(2.5))
    refused(None)
    try:
        refused(b"")
    except Wrong:
        pass
    try:
        answered("x").send(None)
    except StopIteration:
        pass
    for one in (1, "", b"", 1.5, None, [], {}, ()):
        many(one)

def use_a(): return A()
def use_b():
    b = B()
    b.x = b.x
    return b

if __name__ == "__main__":
    as_program()
"#;

/// A module that is first imported during a test.
const LATE_MODULE_CODE: &str = r#"
def used(): return 6
def made(): return below()
def below(): return 7
MADE = made()
"#;

const DRIVER_CODE: &str = r#"
import json, os, sys
here = sys.argv[1]
sys.path.insert(0, here)
from calls import Calls
sys.path[0:1] = [os.getcwd(), sys.argv[2]]
os.environ["PYTHONPATH"] = sys.argv[2]
records = []
calls = Calls(os.getcwd(), records.append, "t.py")
calls.follow_children(here)
calls.install()
import m
for name in sys.argv[3:]:
    calls.begin(name)
    argument = [3] if name in ("fact", "even") else []
    getattr(m, name)(*argument)
    calls.end()
calls.finish()
print(json.dumps(records))
"#;

/// Runs `functions` of `MODULE_CODE` with one interpreter and traces their calls.
fn trace(python: &str, functions: &[&str]) -> (Objects, FileGraph) {
    let (objects, graph, _) = trace_with_notes(python, functions);
    (objects, graph)
}

fn trace_with_notes(python: &str, functions: &[&str]) -> (Objects, FileGraph, FunctionNotes) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    for (name, text) in &COLLECTOR_SCRIPTS {
        let place = dir.path().join("here").join(name);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text.as_bytes()).unwrap();
    }
    fs::create_dir_all(&root).unwrap();
    fs::create_dir_all(dir.path().join("site")).unwrap();
    fs::write(dir.path().join("site/third.py"), "def apply(f):\n    return [f() for _ in [1]]\n")
        .unwrap();
    fs::write(root.join("m.py"), MODULE_CODE).unwrap();
    fs::write(root.join("late.py"), LATE_MODULE_CODE).unwrap();
    fs::write(dir.path().join("driver.py"), DRIVER_CODE).unwrap();
    let output = Command::new(python)
        .arg(dir.path().join("driver.py"))
        .args([dir.path().join("here"), dir.path().join("site")])
        .args(functions)
        .current_dir(&root)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("TMPDIR", dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let records: Vec<Record> = serde_json::from_slice(&output.stdout).unwrap();
    let mut calls = Calls::default();
    calls.add_records(&records);
    let objects = Objects::scan(&root, &["late.py".to_owned(), "m.py".to_owned()]);
    let graph = FileGraph::build_all(&calls, &objects).remove("t.py").unwrap();
    let notes = FunctionNotes::from_calls(&calls, &objects);
    (objects, graph, notes)
}

fn object_paths(objects: &Objects, indices: &BTreeSet<usize>) -> Vec<String> {
    indices.iter().map(|&index| objects.list[index].path.clone()).collect()
}

fn object_number(objects: &Objects, path: &str) -> usize {
    objects.list.iter().position(|object| object.path == path).unwrap()
}

fn callee_paths(objects: &Objects, graph: &FileGraph, path: &str) -> Vec<String> {
    object_paths(objects, &graph.callees_of(object_number(objects, path)))
}

/// Returns the Python interpreters installed on this machine.
fn installed_interpreters() -> Vec<&'static str> {
    let all = ["python3", "python3.12", "python3.13"];
    let runs = |name: &&str| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    all.into_iter().filter(runs).collect()
}

#[test]
fn trace_records_an_edge_for_every_kind_of_call() {
    let interpreters = installed_interpreters();
    assert!(!interpreters.is_empty(), "no python3 on this machine");
    for python in interpreters {
        let functions = [
            "use_a",
            "use_b",
            "fact",
            "even",
            "decorated",
            "by_lambda",
            "by_generator",
            "by_others",
            "nested",
            "waits",
            "in_thread",
            "in_child",
            "by_registry",
            "by_abstract",
            "by_data",
        ];
        let (objects, graph) = trace(python, &functions);
        let of = |path: &str| callee_paths(&objects, &graph, path);
        for (path, expected) in [
            // Methods with the same name are distinguished, even if they are called through
            // `super()`.
            ("use_b", &["B.__init__", "B.x"][..]),
            ("B.__init__", &["A.__init__"]),
            ("A.__init__", &["A.run", "B.run"]),
            ("A.run", &[]),
            ("B.run", &["helper"]),
            // A getter and its setter are one object.
            ("B.x", &["fact", "helper"]),
            // Recursion is not an edge. A cycle of two functions is two edges.
            ("fact", &[]),
            ("even", &["odd"]),
            ("odd", &["even"]),
            // A wrapper belongs to the function that created it.
            ("deco", &["decorated"]),
            ("decorated", &["helper"]),
            ("by_lambda", &["helper"]),
            ("by_generator", &["fact"]),
            ("by_others", &["helper"]),
            ("nested", &["helper"]),
            ("waits", &["waited"]),
            ("waited", &["helper"]),
            // The caller of a registered function is the code that looks it up.
            ("by_registry", &["handler"]),
            ("handler", &["helper"]),
            ("by_abstract", &["Base.shown"]),
            ("Base.shown", &["Concrete.made"]),
            ("Concrete.made", &["Base.made"]),
            // A dataclass's constructor has no code in the module.
            ("by_data", &["Data.__post_init__", "Data.doubled"]),
        ] {
            assert_eq!(of(path), expected, "{python}: {path}");
        }
        let reached = object_paths(&objects, &graph.reached_objects);
        for name in ["target", "apart"] {
            assert!(reached.iter().any(|path| path == name), "{python}: {name}: {reached:?}");
        }
        let imported = object_paths(&objects, &graph.import_time_objects);
        for name in ["built", "registered", "deco", "register"] {
            assert!(imported.iter().any(|path| path == name), "{python}: {name}: {imported:?}");
        }
        assert!(!imported.iter().any(|path| path == "helper"), "{python}: {imported:?}");
    }
}

#[test]
fn notes_contain_observed_types_and_raised_exceptions() {
    for python in installed_interpreters() {
        let (objects, graph, notes) = trace_with_notes(python, &["by_types"]);
        let checked = object_number(&objects, "checked");
        let of = |path: &str, helper: bool| {
            let helpers = |index: usize| helper && index == checked;
            notes.notes_for_object(object_number(&objects, path), &objects, &graph, &helpers)
        };
        // Annotated parameters are omitted. A class defined in a test is reported as its base
        // class.
        assert_eq!(of("typed", true), ["Seen in tests: a: int or str; kind: m.Kind or None."]);
        assert_eq!(of("counted", true), ["Seen in tests: n: float.", "A generator."]);
        // A function that raises an exception has no return value. Exceptions raised by a helper
        // are attributed to its caller.
        let refused = "Seen in tests: x: bytes or None; returns None.";
        assert_eq!(of("refused", true), [refused, "Raises Wrong."], "{python}");
        assert_eq!(of("refused", false), [refused]);
        assert_eq!(of("checked", false), ["Seen in tests: x: bytes.", "Raises Wrong."]);
        assert_eq!(of("answered", false), ["Seen in tests: text: str; returns bytes."]);
        assert_eq!(of("Kind.__init__", false), ["Seen in tests: size: int."]);
        // Only the first types are listed.
        let six = "bytes or dict or float or int or list or str or None or others";
        assert_eq!(of("many", false), [format!("Seen in tests: x: {six}; returns {six}.")]);
        assert!(of("use_a", false).is_empty());
    }
}

#[test]
fn calls_during_imports_are_not_attributed_to_tests() {
    for python in installed_interpreters() {
        // The first test starts an interpreter that imports the module. The second test runs the
        // module as a program.
        let (objects, graph) = trace(python, &["in_child", "in_program", "in_import"]);
        let called = object_paths(&objects, &graph.callees_of_tests());
        let reached = object_paths(&objects, &graph.reached_objects);
        for name in ["made", "below", "deco", "register"] {
            let imported = object_paths(&objects, &graph.import_time_objects);
            assert!(imported.iter().any(|path| path == name), "{python}: {name}: {imported:?}");
        }
        for name in ["made", "below"] {
            assert!(!called.iter().any(|path| path == name), "{python}: {name}: {called:?}");
            assert!(!reached.iter().any(|path| path == name), "{python}: {name}: {reached:?}");
        }
        for name in ["apart", "as_program"] {
            assert!(called.iter().any(|path| path == name), "{python}: {name}: {called:?}");
        }
        assert!(reached.iter().any(|path| path == "used"), "{python}: {reached:?}");
        // Imports in the interpreter that the first test starts do not count as calls made by the
        // test.
        let (objects, graph) = trace(python, &["in_child"]);
        let mut all = graph.reached_objects.clone();
        all.extend(graph.callees_of_tests());
        assert_eq!(object_paths(&objects, &all), ["apart", "in_child"], "{python}");
    }
}

#[test]
fn functions_used_as_values_include_callbacks() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("a.py"),
        "def f(r):\n    r(g, h)\n    k()\ndef g(): pass\ndef k(): pass\n",
    )
    .unwrap();
    fs::write(dir.path().join("b.py"), "def g(): pass\ndef h(): pass\ndef k(): pass\n").unwrap();
    let objects = Objects::scan(dir.path(), &["a.py".to_owned(), "b.py".to_owned()]);
    let stay = objects.functions_used_as_values(&[object_number(&objects, "f")].into());
    let ids: Vec<String> = stay.iter().map(|&index| objects.list[index].id()).collect();
    assert_eq!(ids, ["a.py::g", "b.py::h"]);
}

#[test]
fn extract_objects_keeps_needed_objects_and_removes_whole_cycles() {
    let (objects, graph) = trace("python3", &["even", "nested", "use_b"]);
    let of = |path: &str| object_number(&objects, path);
    let never = ["__init__".to_owned()];
    let take = |tops: &[&str], remained: &[&str], lines: usize| {
        let remained = remained.iter().map(|path| of(path)).collect();
        let bounds = RemovalBounds {
            externally_needed: &remained,
            max_lines: lines,
            protected_names: &never,
        };
        let tops = tops.iter().map(|path| of(path)).collect();
        let extracted = extract_objects(&tops, &graph, &objects, &bounds);
        (
            object_paths(&objects, &extracted.shown_objects),
            object_paths(&objects, &extracted.helpers),
        )
    };
    let owned = |list: &[&str]| list.iter().map(|&path| path.to_owned()).collect::<Vec<_>>();
    assert_eq!(take(&["even"], &[], 100), (owned(&["even"]), owned(&["odd"])));
    // The helper is shown, because remaining methods call it.
    assert_eq!(take(&["nested"], &[], 100), (owned(&["helper", "nested"]), owned(&[])));
    // The helper is kept, because another file reaches it.
    assert_eq!(take(&["nested"], &["helper"], 100), (owned(&["nested"]), owned(&[])));
    // The search continues through kept objects.
    let (shown, helpers) = take(&["use_b"], &["B.x", "nested"], 100);
    assert_eq!(shown, ["B.run", "fact", "helper", "use_b"], "constructors are never removed");
    assert_eq!(helpers, owned(&[]));
    // The limit is in lines. The helper has one line, and the function that calls it has three.
    assert_eq!(take(&["nested"], &[], 3), (owned(&["nested"]), owned(&[])));
    assert_eq!(take(&["nested"], &["nested"], 100), (owned(&["helper"]), owned(&[])));
}
