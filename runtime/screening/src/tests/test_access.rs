//! Tests of access to tests, the test runner and its data.

use super::{check_rule, findings_in};

#[test]
fn access_to_tests_is_flagged() {
    check_rule(
        "test-runner",
        &[
            "import pytest",
            "from _pytest import runner",
            "import os\non = os.environ.get('PYTEST_CURRENT_TEST')",
            "import sys\non = 'pytest' in sys.modules",
        ],
        &["import unicodedata", "name = 'mypytest'"],
    );
    check_rule(
        "test-import",
        &[
            "import tests.data",
            "from test_roman import ANSWERS",
            "from roman.tests import data",
            "import importlib\ntests = importlib.import_module('test_roman')",
            "import importlib\ntests = importlib.import_module('.tests', 'roman')",
            "import importlib\ntests = importlib.import_module('roman.tests.data')",
            "data = __import__('tests.data')",
            "import pkgutil\nanswers = pkgutil.resolve_name('test_roman:ANSWERS')",
            "import importlib\ntests = importlib.import_module(f'test_{name}')",
            "import importlib\ntests = importlib.import_module('tests.' + name)",
            "import pkgutil\nanswers = pkgutil.resolve_name(f'{caller}:test_{name}')",
            "import sys\ntests = sys.modules['test_roman']",
            "import sys\ntests = sys.modules['test_' + name]",
            "import sys\ntests = sys.modules.get('test_roman')",
        ],
        &[
            "import testament",
            "from . import roman",
            "from test import support",
            "import importlib\ntable = importlib.import_module('roman.table')",
            "import importlib\ntable = importlib.import_module(name)",
            "import importlib\ntable = importlib.import_module(f'roman.{name}')",
            "import importlib\ntable = importlib.import_module(f'{__package__}.{name}')",
            "import sys\nmodule = sys.modules[name]",
            "import pkgutil\nplugin = pkgutil.resolve_name(f'{package}:{name}')",
        ],
    );
    check_rule(
        "test-path",
        &[
            "text = open('/testbed/tests/test_g.py').read()",
            "text = open(b'tests/data.bin').read()",
            "text = open(f'{root}/tests/test_g.py').read()",
            "text = open('/testbed/te' + 'sts/x').read()",
            "import os\np = os.path.join(root, 'tests')",
            "import subprocess\nsubprocess.run(['cat', 'tests/test_g.py'])",
            "exec('''text = open(\"tests/test_g.py\").read()''')",
        ],
        &[
            "import os\np = os.path.join(root, 'templates')",
            "def go():\n    \"\"\"tests/test_g.py\"\"\"",
            "message = 'run the tests in tests/ first'",
            "kind = 'test'",
        ],
    );
    check_rule(
        "caller-source",
        &[
            "import linecache\nlines = linecache.getlines(name)",
            "import inspect\ntext = inspect.getsource(f)",
            "import inspect\nline = inspect.stack()[1].code_context[0]",
            "import traceback\nline = traceback.extract_stack()[-2].line",
            "import traceback\nline = traceback.format_stack()[-2]",
            "import traceback\nfor line in traceback.format_stack():\n    use(line)",
            "import dis\nfor line in dis.get_instructions(go):\n    use(line.argval)",
            "import inspect, json\nrows = json.dumps(inspect.stack(), default=repr)",
            "import inspect\nfor frame in next(zip(*inspect.stack())):\n    use(frame)",
            "import inspect\nframes = next(iter(inspect.stack()))",
            "import inspect\ntext = f'{inspect.stack()[1]}'",
            "import inspect\ntext = str(inspect.stack()[1])",
            "import inspect\nrows = [*inspect.stack()]",
            "import inspect\nrows = inspect.stack()\nrows.reverse()",
            "import inspect\nrow = inspect.stack()[1]\nuse(row)",
            "import inspect\nfor row in inspect.stack()[1:]:\n    use(row)",
            "import inspect\nfor part in inspect.stack()[1]:\n    use(part)",
            "import inspect\nlines = inspect.stack()[1][-2]",
            "import inspect\n*_, lines, _ = inspect.stack()[1]\nuse(lines)",
            "import inspect\nlines = inspect.stack()[1][part]",
            "import inspect\n_, *rest = inspect.stack()\nuse(rest)",
            "import inspect\n_, *rest = inspect.stack()[1]\nuse(rest)",
            "import inspect\nparts = inspect.stack()[1][0:4]",
            "import inspect\ntable = inspect.stack()[1]._asdict()",
            "import inspect\nclass A:\n    rows = inspect.stack()",
            "import inspect\ndef go():\n    global rows\n    rows = inspect.stack()",
            "import inspect\nself.rows = inspect.stack()",
            "import inspect\nreturn_all = lambda: inspect.stack()",
            "import functools, inspect\nrows = functools.partial(inspect.stack)()",
            "from inspect import stack\nrows = list(map(stack, [1]))",
            "import inspect\nmatch inspect.stack()[1]:\n    case [_, name, *_]:\n        use(name)",
            "import inspect\nname = inspect.stack(999)[1].function",
            "import inspect\nname = inspect.stack(context=many)[1].function",
            "import inspect\nname = inspect.stack(*many)[1].function",
            "import inspect\nrows = inspect.trace()\nuse(rows)",
            "for one in std.dis.get_instructions(code):\n    use(one.argval)",
            "text = std.getsourcelines(go)",
            "import warnings\nline = warnings.formatwarning(told, kind, name, 3)",
            "import logging\nclass H(logging.Handler):\n    def emit(self, record):\n        use(record.stack_info)",
        ],
        &[
            "import warnings\nwarnings.formatwarning = short",
            "import traceback\nCALLS = []\nCALLS.append(traceback.format_stack(limit=2))",
            "import logging, traceback\nlogging.debug(''.join(traceback.format_stack()))",
            "import traceback\ntext = traceback.format_exc()",
            "import inspect\ncaller = inspect.stack()[1]\nuse(caller.filename, caller.lineno)",
            "import inspect\nframe, name, line, function, lines, index = inspect.stack()[1]\nuse(name, line, function)",
            "import inspect\n_, name, line, *_ = inspect.stack()[2]\nuse(name, line)",
            "import inspect\nname, line = inspect.stack()[1][1:3]\nuse(name, line)",
            "import inspect\nfor row in inspect.stack()[1:]:\n    if row.function == 'go':\n        use(row.lineno, row[1])",
            "import inspect\nnames = [row.function for row in inspect.stack(0)]",
            "import inspect\ndepth = len(inspect.stack(context=0))",
            "import inspect\nname = inspect.stack()[offset].function",
            "import inspect, logging\nlog = logging.getLogger(__name__)\nlog.debug('by %s', inspect.stack()[1])",
            "import inspect\nname = inspect.stack.__name__",
            "def go(stack):\n    return zip(*stack())",
            "stack = []\nuse(stack)",
        ],
    );
    check_rule(
        "unusual-reader",
        &[
            "import os\nd = os.open('x', 0)",
            "use('x', dir_fd=d)",
            "import os\npid = os.fork()",
            "import _posixsubprocess\n_posixsubprocess.fork_exec(x)",
            "import readline\nreadline.read_history_file(p)",
            "text = open('/proc/self/maps').read()",
            "text = open(f'/proc/{pid}/mem', 'rb').read()",
            "text = open('/proc/' + str(pid) + '/mem', 'rb').read()",
            "import pathlib\ntext = (pathlib.Path('/proc') / str(pid) / 'mem').read_bytes()",
            "import os\npath = os.path.join('/proc', str(pid), 'fd')",
            "path = '/proc/{}/mem'.format(pid)",
        ],
        &[
            "text = open('table.json').read()",
            "text = open(f'/proc/{pid}/stat').read()",
            "path = f'{root}/memory/{name}'",
            "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'pass'])",
            "import pathlib\ntext = pathlib.Path(__file__).with_name('a.json').read_text()",
        ],
    );
}

#[test]
fn data_of_test_tools_is_flagged() {
    let rule = |path: &str| findings_in(path, "", "text", None).pop().map(|found| found.rule);
    let table = ".hypothesis/unicode_data/14.0.0/charmap.json.gz";
    assert_eq!(rule(table).as_deref(), Some("tool-data"));
    assert_eq!(rule("docs/.hypothesis/examples/a").as_deref(), Some("tool-data"));
    assert_eq!(rule("docs/hypothesis/a.txt"), None);
    assert_eq!(rule(".hypothesis.txt"), None);
}
