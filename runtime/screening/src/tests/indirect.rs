//! Tests of readers that a library calls, of modules that are found through the stack, and of
//! programs in strings.

use super::{check_rule, findings_in, violated_rules_in_files};

#[test]
fn indirect_readers_are_flagged() {
    check_rule(
        "indirect-reader",
        &[
            "import functools\nlook = functools.singledispatch(vars)",
            "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor().submit(vars, it).result()",
            "tables = map(vars, things)",
            "import functools\nevery = functools.singledispatch(getattr(module, name))",
            "import inspect\nframes = inspect.getmembers(error.__traceback__, inspect.isframe)",
            "import inspect\nparts = inspect.getmembers(code, lambda it: isinstance(it, tuple))",
            "import inspect\nparts = inspect.getmembers(found)",
            "import inspect\nparts = filter(inspect.iscode, found)",
            "import operator\nread = operator.attrgetter('__code__')",
            "import operator\nread = operator.attrgetter('owner.__dict__')",
            "def scan(text, note):\n    return vars(note.__self__)",
            "def scan(text, note):\n    owner = note.__self__\n    return list(vars(owner).values())",
            "def scan(text, note):\n    owner = note.__self__\n    return owner.__dict__",
            "def go(error, name):\n    return getattr(error.__traceback__, name)",
            "def go(error):\n    trace = error.__traceback__\n    return dir(trace)",
        ],
        &[
            "import functools\n@functools.singledispatch\ndef show(it):\n    return str(it)",
            "import inspect\nfrom . import table\nkinds = inspect.getmembers(table, inspect.isclass)",
            "import inspect\nkinds = inspect.getmembers(module, lambda it: inspect.isclass(it) and issubclass(it, A))",
            "import inspect\nclass A:\n    def names(self):\n        return inspect.getmembers(self)",
            "import inspect\nclass A:\n    pass\n\nmembers = inspect.getmembers(A)",
            "import inspect\nif inspect.isframe(it) or inspect.iscode(it):\n    pass",
            "import operator\nread = operator.attrgetter('name', 'owner.__name__')",
            "look = vars\ntable = look(it)",
            "def go(text, vars):\n    return use(text, vars)",
            "def scan(note):\n    return note.__self__ is not None",
            "class A:\n    def names(self):\n        return vars(self)",
            "import traceback\ndef go(error):\n    trace = error.__traceback__\n    return traceback.format_tb(trace), getattr(trace, 'tb_lineno')",
            "def go(error):\n    raise ValueError(error).with_traceback(error.__traceback__)",
        ],
    );
}

#[test]
fn modules_of_callers_are_flagged() {
    check_rule(
        "caller-module",
        &[
            "import inspect, sys\nname = inspect.stack()[1].filename\nuse(sys.modules[stem(name)].TABLE)",
            "import inspect, sys\ndef caller():\n    return [row.filename for row in inspect.stack(0)]\n\nuse(sys.modules.get(caller()[0]).TABLE)",
            "from inspect import stack\nfrom importlib import import_module\nuse(import_module(stack()[1].function).TABLE)",
        ],
        &[
            "import inspect, logging\nlogging.debug('by %s', inspect.stack()[1].function)",
            "import sys\nmodule = sys.modules[name]",
            "import inspect, sys\nname = inspect.stack()[1].function\nlogger = getattr(sys.modules['__main__'], 'logger', name)",
            "import inspect, sys\nname = inspect.stack()[1].function\nhere = getattr(sys.modules[__name__], name)",
            "import inspect, sys\nname = inspect.stack()[1].function\ntypes = getattr(sys.modules[kind.__module__], 'TYPES')",
            "import importlib, inspect\nname = inspect.stack()[1].function\njson = importlib.import_module('json')\nuse(json.dumps(name))",
        ],
    );
}

#[test]
fn parts_of_a_combination_may_be_in_different_files_or_in_the_base() {
    let stack = "import inspect\n\ndef caller():\n    return inspect.stack()[1].filename";
    let lookup = "import sys\n\ndef table_of(name):\n    return use(sys.modules[name].TABLE)";
    let files = [("roman/a.py", stack), ("roman/b.py", lookup)];
    assert!(violated_rules_in_files(&files).contains("caller-module"));
    // The use in the base counts, but is not a separate finding.
    let found = findings_in("roman/a.py", &format!("{stack}\n"), lookup, None);
    let lines: Vec<usize> = found.iter().map(|finding| finding.line).collect();
    assert_eq!(lines, [8], "{found:?}");
    let both = format!("{stack}\n{lookup}\n");
    assert!(findings_in("roman/a.py", &both, lookup, None).is_empty());
    assert!(findings_in("roman/a.py", "", &both, Some(&both)).is_empty());
}

#[test]
fn names_of_tests_are_flagged() {
    check_rule(
        "test-name",
        &[
            "is_test = name.startswith('test')",
            "is_test = name.startswith(('check_', 'test_'))",
            "is_test = stem.endswith('_test')",
            "import fnmatch\nis_test = fnmatch.fnmatch(name, 'test_*')",
            "import re\nis_test = re.match('^test_', name)",
            "is_test = 'test_' in name",
            "is_test = name[:5] == 'test_'",
        ],
        &[
            "is_text = name.startswith('text')",
            "is_latest = name.endswith('latest')",
            "kind = options['test'] == 'test'",
            "is_on = 'test' in names",
            "is_it = name.startswith('testament')",
        ],
    );
}

#[test]
fn programs_in_strings_are_screened() {
    check_rule(
        "computed-code",
        &[
            "PROGRAM = '''\nimport marshal, sys\nprint(marshal.loads(sys.stdin.buffer.read()))\n'''",
            "def go():\n    run(\"\"\"\n    import marshal\n    use(marshal.load(file))\n    \"\"\")",
            "run('-c', 'import marshal; use(marshal.load(file))')",
        ],
        &[
            "PROGRAM = '''\nimport json, sys\nprint(json.dumps(sys.argv))\n'''",
            "def go():\n    \"\"\"\n    import marshal\n    use(marshal.load(file))\n    \"\"\"",
            "TEXT = '''\nimport marshal from the shop;\nit is cheap\n'''",
        ],
    );
    check_rule(
        "unusual-reader",
        &["PROGRAM = '''\nimport os\nbase = \"/proc/%d/\" % os.getppid()\n'''"],
        &["PROGRAM = '''\nimport os\nbase = \"/srv/%d/\" % os.getppid()\n'''"],
    );
}
