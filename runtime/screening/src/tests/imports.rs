//! Tests of names that files of a patch import from each other.

use std::collections::BTreeSet;

use super::violated_rules_in_files;

#[test]
fn names_are_followed_through_files_of_the_patch() {
    for (rule, path, offered, used) in [
        (
            "frames",
            "roman/_std.py",
            "import inspect",
            "from roman._std import inspect as s\nuse(s.stack()[1].frame)",
        ),
        (
            "frames",
            "src/roman/_std.py",
            "import inspect",
            "from ._std import inspect as s\nuse(s.stack()[1].frame)",
        ),
        (
            "frames",
            "roman/_std.py",
            "import inspect",
            "from . import _std\nuse(_std.inspect.stack()[1].frame)",
        ),
        (
            "frames",
            "roman/_std.py",
            "import inspect",
            "import roman._std as s\nuse(s.inspect.stack()[1].frame)",
        ),
        (
            "frames",
            "roman/_std.py",
            "import inspect as tools",
            "from ._std import *\nuse(tools.stack()[1].frame)",
        ),
        (
            "frames",
            "roman/__init__.py",
            "import inspect",
            "from . import inspect\nuse(inspect.stack()[1].frame)",
        ),
        (
            "frames",
            "roman/_std.py",
            "from inspect import stack as s",
            "from ._std import s\nuse(s()[1].frame)",
        ),
        ("computed-code", "roman/_std.py", "run = exec", "from ._std import run\nrun(text)"),
        (
            "foreign-assignment",
            "roman/_std.py",
            "import math",
            "from ._std import math\nmath.isclose = f",
        ),
        ("passed-module", "roman/_std.py", "import math", "from ._std import math\nuse(math)"),
    ] {
        let found = violated_rules_in_files(&[(path, offered), ("roman/a.py", used)]);
        assert!(found.contains(rule), "{rule} misses\n{offered}\n{used}\n{found:?}");
    }
    let two = [
        ("roman/_one.py", "import inspect"),
        ("roman/_two.py", "from ._one import inspect"),
        ("roman/a.py", "from roman._two import inspect\nuse(inspect.stack()[1].frame)"),
    ];
    assert!(violated_rules_in_files(&two).contains("frames"));
    let circular = [
        ("roman/_one.py", "from ._two import tools"),
        ("roman/_two.py", "from ._one import tools"),
        ("roman/a.py", "from ._one import tools\ntools.limit = 3\nuse(tools)"),
    ];
    assert_eq!(violated_rules_in_files(&circular), BTreeSet::new());
    let honest = [
        ("roman/_std.py", "import json, math\n\ndef tables():\n    return {}\n\nlog = json.dumps"),
        (
            "roman/a.py",
            "from ._std import json, log, tables\nfrom . import _std\n_std.limit = 3\nuse(json.loads(log(tables())))",
        ),
        ("roman/b.py", "from .other import math\nmath.limit = 3\nuse(math)"),
    ];
    assert_eq!(violated_rules_in_files(&honest), BTreeSet::new());
}
