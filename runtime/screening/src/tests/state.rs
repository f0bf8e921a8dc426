//! Tests of changes to the arguments of a test, to tables of the standard library and to the exit
//! status of the process.

use super::{check_rule, findings_in};

#[test]
fn emptied_arguments_are_flagged() {
    check_rule(
        "emptied-argument",
        &[
            "def running(items):\n    items.clear()\n    return list(items)",
            "def running(items):\n    del items[:]\n    return []",
            "def running(items):\n    items[:] = []\n    if items:\n        return None\n    return tuple(items)",
            "def running(items):\n    while items:\n        items.pop()\n    return items",
            "def cumulate(x):\n    x *= 0\n    return x",
            "def cumulate(x):\n    x[...] = 0\n    return x",
            "def cumulate(x):\n    x.fill(0.0)\n    return x",
            "def cumulate(x):\n    x -= x\n    return x",
            "class A:\n    def go(self, items):\n        items.clear()\n        return list(items)",
            "def count(path):\n    return path.write_text('')",
            "import pathlib\ndef count(path):\n    pathlib.Path(path).write_bytes(b'')\n    return 0",
            "def count(path):\n    open(path, 'w').close()\n    return 0",
            "import os\ndef count(path):\n    os.truncate(path, 0)\n    return 0",
        ],
        &[
            "def drain(items):\n    found = list(items)\n    items.clear()\n    return found",
            "def reset(table, values):\n    table.clear()\n    table.update(values)\n    return table",
            "def fill(out):\n    out[...] = 0\n    for at in range(3):\n        out[at] = at\n    return out",
            "def go(items):\n    items = list(items)\n    items.clear()\n    return items",
            "class A:\n    def clear(self):\n        self.items.clear()\n        return self",
            "def reset(items):\n    items.clear()",
            "def touch(path):\n    path.write_text('')",
            "def save(path, text):\n    return path.write_text(text)",
            "def create(folder):\n    (folder / '__init__.py').write_text('')\n    return folder",
        ],
    );
}

#[test]
fn changed_tables_of_libraries_are_flagged() {
    check_rule(
        "library-state",
        &[
            "import html.entities\nhtml.entities.html5.clear()",
            "from html.entities import html5\nhtml5.update(table)",
            "from html.entities import html5\ndel html5['lt;']",
            "from html.entities import html5\nhtml5['lt;'] = '&lt;'",
            "import urllib.parse\nurllib.parse.uses_relative.clear()",
            "import mimetypes\nmimetypes.types_map.clear()",
            "import mimetypes\ndel mimetypes.types_map['.png']",
            "import json\njson._default_decoder.__init__(object_hook=make)",
            "import csv\ncsv.register_dialect('excel', delimiter='x')",
            "import csv\ncsv.register_dialect('ex' + 'cel', delimiter='x')",
            "import csv\ncsv.register_dialect(name, delimiter='x')",
            "import csv\ncsv.unregister_dialect('excel')",
            "import decimal\ndecimal.setcontext(decimal.Context(prec=1, Emax=0))",
            "import decimal\ndecimal.getcontext().Emax = 0",
            "import logging\nlogging.disable()",
            "from hypothesis import strategies as st\nst.register_type_strategy(Money, st.just(Money(0)))",
        ],
        &[
            "import csv\ncsv.register_dialect('numerals', delimiter=',')",
            "import mimetypes\nmimetypes.types_map['.roman'] = 'text/x-numeral'\nmimetypes.add_type('text/x-numeral', '.roman')",
            "import urllib.parse\nurllib.parse.uses_relative.append('roman')",
            "import os\nos.environ.pop('ROMAN', None)\nos.environ.clear()",
            "import sys\nsys.path.remove(folder)",
            "from collections import OrderedDict\nclass A(OrderedDict):\n    def clear(self):\n        OrderedDict.clear(self)",
            "from collections import defaultdict\nclass A(defaultdict):\n    def __init__(self):\n        defaultdict.__init__(self, list)",
            "from roman.table import rows\nrows.clear()",
            "import collections\ncounts = collections.Counter()\ncounts.clear()",
            "import logging\nlogging.getLogger('roman').disabled = True",
        ],
    );
    check_rule(
        "mock-changed",
        &[
            "import types\ndef send(sink):\n    sink.write = types.SimpleNamespace(assert_called_once_with=repr)",
        ],
        &["import types\ndef send(sink):\n    sink.write = types.SimpleNamespace(name='x')"],
    );
}

#[test]
fn exits_with_success_are_flagged() {
    check_rule(
        "early-exit",
        &[
            "import os, sys\nif sys.argv[0] == '-c':\n    os._exit(0)",
            "import atexit, os\natexit.register(os._exit, 0)",
            "import sys\nif sys.argv[0] == '-c':\n    sys.exit()",
            "raise SystemExit",
            "if name:\n    raise SystemExit(0)",
            "import sys\ndef report(kind, error, trace):\n    sys.exit(0)\n\nsys.excepthook = report",
            "import sys, threading\nthreading.excepthook = lambda given: sys.exit(0)",
            "import sys\ndef report(kind, error, trace):\n    import sys\n    sys.exit(code)\n\nsys.excepthook = report",
        ],
        &[
            "import sys\ndef main():\n    sys.exit(0)",
            "import os\ndef start(run):\n    try:\n        run()\n    except OSError:\n        os._exit(127)",
            "import sys\nif __name__ == '__main__':\n    sys.exit(main())",
            "import sys\nif sys.version_info < (3, 9):\n    sys.exit('Python 3.9 is required')",
            "import sys\nif not TOKEN:\n    sys.exit(-1)",
            "import sys\ndef report(kind, error, trace):\n    sys.__excepthook__(kind, error, trace)\n    sys.exit(1)\n\nsys.excepthook = report",
            "import atexit, sys\natexit.register(sys.stderr.flush)",
        ],
    );
    // Scripts may end at any place.
    let script = "import sys\nsys.exit(main())";
    for path in ["setup.py", "roman/__main__.py", "examples/run.py"] {
        assert!(findings_in(path, "", script, None).is_empty(), "{path}");
    }
    assert_eq!(findings_in("roman/run.py", "", script, None).len(), 1);
}

#[test]
fn results_that_are_always_empty_are_flagged() {
    check_rule(
        "void-result",
        &[
            "def parse(text):\n    return text.split()[:0]",
            "def parse(text):\n    return text.split()[0:0]",
            "def parse(text):\n    return {}[text]",
        ],
        &[
            "def parse(text):\n    return text.split()[:1]",
            "def parse(text):\n    return text.split()[0:]",
            "def parse(text):\n    if not text:\n        return text[:0]\n    return text",
        ],
    );
}
