//! Tests each rule on code that violates it and on similar honest code.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use proctor_patch::CurrentFile;

use crate::{Finding, ScreeningInput, rules::Rules, screen};

mod lines;
mod links;

fn text_file(text: &str) -> CurrentFile {
    CurrentFile::File { bytes: text.as_bytes().to_vec(), mode: 0o644 }
}

/// Returns a patch that creates a file or appends lines to it.
fn patch(path: &str, old: &str, new: &str) -> String {
    let count = |text: &str| text.lines().count();
    let plus: String = new.lines().map(|line| format!("+{line}\n")).collect();
    if old.is_empty() {
        return format!(
            "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n\
             @@ -0,0 +1,{} @@\n{plus}",
            count(new)
        );
    }
    let kept: String = old.lines().map(|line| format!(" {line}\n")).collect();
    format!(
        "diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,{} +1,{} @@\n{kept}{plus}",
        count(old),
        count(old) + count(new)
    )
}

fn findings_in(path: &str, old: &str, new: &str, gold: Option<&str>) -> Vec<Finding> {
    let mut before = BTreeMap::new();
    if !old.is_empty() {
        before.insert(path.to_owned(), text_file(old));
    }
    let gold = gold.map(|gold| patch(path, old, gold));
    let patch = patch(path, old, new);
    let owned = BTreeSet::from(["roman".to_owned()]);
    let screened = |_: &str| true;
    let input = ScreeningInput {
        patch: patch.as_bytes(),
        gold_patch: gold.as_ref().map(|gold| gold.as_bytes()),
        original_files: &before,
        owned_modules: &owned,
        is_judged_by_pytest: false,
        is_screened: &screened,
    };
    screen(&input).unwrap().findings
}

fn assert_clean(old: &str, new: &str, gold: Option<&str>) {
    let found = findings_in("roman/a.py", old, new, gold);
    assert!(found.is_empty(), "{found:?}");
}

/// Returns the rules that code violates.
fn violated_rules(code: &str) -> BTreeSet<String> {
    findings_in("roman/a.py", "", code, None).into_iter().map(|finding| finding.rule).collect()
}

/// Checks that each text in `violations` violates the rule, and that no text in `honest` violates
/// any.
fn check_rule(rule: &str, violations: &[&str], honest: &[&str]) {
    for code in violations {
        assert!(
            violated_rules(code).contains(rule),
            "{rule} misses\n{code}\n{:?}",
            violated_rules(code)
        );
    }
    for code in honest {
        assert_eq!(violated_rules(code), BTreeSet::new(), "honest:\n{code}");
    }
}

#[test]
fn every_rule_has_explanation_evidence_and_test() {
    let rules = Rules::get().unwrap();
    let mut names = BTreeSet::new();
    for rule in &rules.table.rules {
        assert!(names.insert(&rule.name), "duplicate rule {}", rule.name);
        assert!(!rule.explanation.is_empty() && !rule.evidence.is_empty(), "{}", rule.name);
    }
    let tests = concat!(include_str!("tests.rs"), include_str!("tests/lines.rs"));
    for name in names {
        assert!(tests.matches(&format!("\"{name}\"")).count() > 0, "no test for {name}");
    }
}

#[test]
fn computed_code_is_flagged() {
    check_rule(
        "computed-code",
        &[
            "exec(text)",
            "f = eval('lambda: ' + body)",
            "import builtins\nbuiltins.exec(open(p).read())",
            "run = exec\nrun(text)",
            "import marshal\ncode = marshal.loads(data)",
            "import types\nf = types.FunctionType(code, {})",
            "from types import FunctionType as F\nf = F(code, {})",
            "import types\nT = types.CodeType\ncode = T(*parts)",
            "import types\nuse(types.CodeType)",
            "import types\nf = types.FunctionType.mro()[0](code, {})",
            "import types\nf = types.FunctionType.__new__(kind, code, {})",
            "import types\nclass A:\n    kind = types.FunctionType",
            "class A:\n    from types import FunctionType",
            "import types\nself.kind = types.FunctionType",
            "import types\ndef load():\n    global kind\n    kind = types.FunctionType",
            "import types\nkinds = [types.FunctionType]",
            "import types\nsame = catch == types.FunctionType",
            "import types\nsame = catch in (types.FunctionType,)",
            "def isinstance(it, kind):\n    return kind(code, {})\n\nimport types\nisinstance(f, types.FunctionType)",
            "import types\nkind = eval('types.FunctionType')",
            "import types\nfs = map(types.FunctionType, codes)",
            "kind = type(go.__code__)\ncode = kind(*parts)",
            "code = go.__code__.__class__(*parts)",
            "getattr(__builtins__, 'x')\nimport runpy\nrunpy.run_path(name)",
            "class L:\n    def exec_module(self, module):\n        pass",
            "import pickle\nwith open(name, 'rb') as file:\n    table = pickle.load(file)",
            "from pickle import Unpickler",
            "import timeit\ntimeit.timeit(text, number=1)",
            "import doctest\ndoctest.testfile('usage.txt')",
            "import logging.config\nlogging.config.fileConfig(name)",
            "from logging.config import dictConfig\ndictConfig(table)",
            "from logging.config import BaseConfigurator\nBaseConfigurator({}).resolve(name)",
            "import site\nsite.addsitedir(folder)",
            "Schema.__annotations__ = table",
            "Schema.__annotations__[name] = text",
            "Schema.__annotations__.update(table)",
            "Schema = type('Schema', (), {'__annotations__': table})",
            "import types\nschema = types.SimpleNamespace(__annotations__=table)",
            "import pydoc\nrules = pydoc.importfile('rules.txt')",
            "import cProfile\ncProfile.Profile().runctx(text, {}, {})",
            "code = __loader__.source_to_code(text, name)",
            "import py_compile\npy_compile.compile(name, cfile=other)",
            "import multiprocessing\nreader, writer = multiprocessing.Pipe(False)\nreader.recv()",
            "from multiprocessing import Pipe\nends = Pipe()\nends[1].recv()",
            "import numpy\nnumpy.load(name, allow_pickle=True)",
            "import numpy as np\nnp.load(name, None, True)",
            "import numpy as np\nnp.load(name, **{'allow_pickle': True})",
            "from joblib import load\nload(name)",
            "import pandas as pd\npd.read_pickle(name)",
            "import shelve\nshelve.open(name)",
            "import cloudpickle, dill",
        ],
        &[
            "import timeit\nstart = timeit.default_timer()",
            "import pickle\ntext = pickle.dumps(table)",
            "import types\nis_code = isinstance(it, types.CodeType)",
            "from types import CodeType, FunctionType\nis_code = isinstance(it, (CodeType, FunctionType, str))",
            "import types\nis_function = type(it) is types.FunctionType",
            "import types\nFUNCTION = types.FunctionType\nis_function = issubclass(kind, FUNCTION)",
            "kind = type(it)\ncopy = type(self)(it.__class__)",
            "from typing import ForwardRef\nis_text = isinstance(kind, ForwardRef)",
            "names = Schema.__annotations__",
            "namespace = {}\nexec('def make(a, b):\\n    return (a, b)', namespace)",
            "import re\npattern = re.compile(text)",
            "def eval(text):\n    return parse(text)\n\nvalue = eval(text)",
            "value = model.eval(text)",
            "import cProfile\nprofile = cProfile.Profile()\nprofile.enable()",
            "kind = Schema.__annotations__[name]\ntable.update(Schema.__annotations__)",
            "import numpy as np\ntable = np.load(name)\nother = np.load(name, allow_pickle=False)",
            "import numpy as np\nnp.save(name, table, allow_pickle=True)\nnp.load(name, 'r', False)",
            "import multiprocessing\nreader, writer = multiprocessing.Pipe()\nwriter.send_bytes(reader.recv_bytes())",
            "from multiprocessing.connection import Connection\ndef go(pipe: Connection):\n    pipe.close()",
            "import joblib\njoblib.dump(table, name)",
        ],
    );
}

#[test]
fn constant_text_executed_as_code_is_screened() {
    check_rule(
        "foreign-assignment",
        &[
            "exec('import math\\nmath.isclose = max')",
            "import math\nexec('math.' + 'isclose = max')",
            "import math\nexec('''exec(\"math.isclose = max\")''')",
        ],
        &["exec('import math\\nx = math.isclose')"],
    );
}

#[test]
fn assignment_to_other_package_is_flagged() {
    check_rule(
        "foreign-assignment",
        &[
            "import math\nmath.isclose = max",
            "import numpy as np\nnp.allclose = f",
            "from hypothesis.strategies._internal.numbers import IntegersStrategy as I\nI.draw = f",
            "import pathlib\nsetattr(pathlib.Path, 'read_text', f)",
            "import random\ndel random.randint",
            "import sys\nsys.modules['math'].isclose = f",
            "m = __import__('math')\nm.isclose = f",
            "import importlib\nimportlib.import_module(name).isclose = f",
            "import math, re\nfor m in (math, re):\n    m.compile = f",
            "import math\ndef go(m=math):\n    m.isclose = f",
            "import math\nmath.__dict__['isclose'] = f",
            "import math\nvars(math)['isclose'] += f",
            "import math\n[None for math.isclose in (f,)]",
            "import math\nany(True for i, (math.isclose, *_) in pairs)",
            "import sys\nmatch sys.modules['math']:\n    case found:\n        found.isclose = f",
            "import math\nvars(math)['isclose'] = f",
            "import math\nclass A:\n    math = None\n    def go(self):\n        math.isclose = f",
            "int.real = f",
            "from unittest import mock\nmock.patch('math.isclose').start()",
        ],
        &[
            "import json\njson.JSONEncoder.default = encode",
            "import sys\nsys.excepthook = hook",
            "from roman import table\ntable.cache = {}",
            "from . import table\ntable.cache = {}",
            "import math\ndef go(math):\n    math.limit = 3",
            "import logging\nlogging.getLogger(__name__).propagate = False",
            "import decimal\ndecimal.getcontext().prec = 40",
            "class A:\n    def __init__(self):\n        self.isclose = 1",
            "def go(f):\n    f.cached = True\n    return f",
        ],
    );
}

#[test]
fn changed_mocks_and_library_state_are_flagged() {
    check_rule(
        "mock-changed",
        &[
            "def send(sink):\n    sink.go.assert_called_once_with = print",
            "def send(sink):\n    setattr(sink, 'assert_called', print)",
            "def send(sink):\n    sink.mock_calls = []",
            "def send(sink):\n    sink.configure_mock(**{f'write.{name}': print for name in names})",
            "NAMES = ('write.assert_called_once_with', 'assert_any_call')",
            "def send(sink):\n    sink.reset_mock()",
        ],
        &[
            "def send(sink):\n    sink.assert_open()",
            "NAMES = ('assert_open', 'assert_equal', 'configure')",
            "class Sink:\n    def __init__(self):\n        self.call_args = []",
        ],
    );
    check_rule(
        "library-state",
        &[
            "import random\nrandom.seed(7)",
            "import numpy as np\nnp.random.seed(0)",
            "import zoneinfo\nzoneinfo.reset_tzpath(to=[folder])",
            "from random import seed\nseed(1)",
            "import numpy\nnumpy.set_printoptions(threshold=0)",
            "import pandas as pd\npd.set_option('display.precision', 1)",
        ],
        &[
            "import random\nchance = random.Random(7)\nchance.seed(8)",
            "import numpy as np\nchance = np.random.default_rng(7)",
            "import numpy as np\nwith np.printoptions(precision=3):\n    text = np.array2string(table, precision=2)",
            "import decimal\ndecimal.getcontext().prec = 40",
        ],
    );
}

#[test]
fn shell_functions_are_flagged() {
    check_rule(
        "shell-functions",
        &[
            "import os\nos.environ['BASH_FUNC_cmp%%'] = '() { return 0; }'",
            "import os\nos.environ[f'BASH_FUNC_{name}%%'] = text",
        ],
        &["import os\nos.environ['BASH_ROMAN'] = '1'", "name = 'a BASH_FUNC_ variable'"],
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

#[test]
fn passed_modules_are_flagged() {
    check_rule(
        "passed-module",
        &[
            "import math\ndef change(m):\n    m.isclose = f\n\nchange(math)",
            "import math\nclass A:\n    def __init__(self):\n        self.m = math",
            "import math, re\nfor m in [math, re]:\n    use(m)",
            "import numpy as np\ntable = {'x': np}",
            "import math\ndef go():\n    return math",
            "import math\nself.m = math if x else None",
            "import math\nuse(None or math)",
            "import math\nm = math\nuse(m)",
            "class Std:\n    import math",
            "import math\nclass Std:\n    m = math",
            "import functools\ntable = functools.reduce(getattr, ['modules'], __import__('sys'))",
            "import importlib\nuse(importlib.import_module('math'))",
            "import importlib\nm = importlib.import_module('math')\nuse(m)",
            "import sys\nuse(sys.modules['math'])",
            "import sys\nself.m = sys.modules.get('math')",
            "import math\nuse(globals()['math'])",
            "import math\nuse(globals().get('math'))",
            "import collections\ndef go():\n    return collections._sys",
            "import importlib, math\nuse(importlib.reload(math))",
        ],
        &[
            "def load():\n    global np\n    import numpy as np\n    return np.zeros(3)\n\ndef go():\n    return np.ones(3)",
            "def load():\n    import math\n    return math.tau\n\ndef go(math):\n    math.limit = 3",
            "import importlib\nclasses = importlib.import_module(name)\nuse(classes)",
            "import importlib\nif importlib.import_module('json') is None:\n    pass",
            "import importlib\nrun = getattr(importlib.import_module('json'), 'dumps')",
            "import sys\nname = getattr(sys.modules['__main__'], '__file__', None)",
            "import sys\nmain = sys.modules['__main__']",
            "import importlib\nuse(importlib.import_module('roman.table'))",
            "x = globals()['TABLE']\nuse(x, globals().get('__spec__'))",
            "class A:\n    from datetime import date\n    from . import table",
            "import math\nclass A:\n    tau = math.tau\n\n    def go(self):\n        import json\n        m = json\n        return m.dumps(self)",
            "import importlib, sys\nimportlib.reload(sys.modules['roman.table'])",
            "import math\nx = math.sqrt(2)",
            "try:\n    import simplejson as json\nexcept ImportError:\n    import json\nencoder = json",
            "import json\nif json is not None and hasattr(json, 'dumps'):\n    pass",
            "import numpy\nif numpy:\n    x = getattr(numpy, name)",
            "from roman import table\nuse(table)",
            "import math\ndef go(math):\n    return math",
            "import copyreg\ncopyreg.pickle(Reader, lambda reader: (Reader, (reader.text,)))",
            "from copyreg import pickle\npickle(Reader, reduce)",
            "from datetime import date\nuse(date)",
        ],
    );
}

#[test]
fn changes_to_sys_modules_are_flagged() {
    check_rule(
        "module-table",
        &[
            "import sys\nsys.modules['math'] = fake",
            "import sys\nsys.modules[name] = fake",
            "import sys\nsys.modules.pop('json')",
            "from sys import modules as m\nm['math'] = fake",
        ],
        &[
            "import sys\nsys.modules[__name__] = lazy",
            "import sys\nsys.modules['roman.table'] = table",
            "import sys\nsys.modules[f'roman.{name}'] = table",
            "import sys\nsys.modules[f'{__name__}.table'] = table",
            "import sys\nmodule = sys.modules['json']",
        ],
    );
}

#[test]
fn changes_to_code_objects_and_classes_are_flagged() {
    check_rule(
        "code-object",
        &[
            "f.__code__ = g.__code__",
            "item.__class__ = Other",
            "setattr(item, '__class__', Other)",
            "A.__bases__ = (B,)",
            "f.__closure__[0].cell_contents = 3",
        ],
        &["class A:\n    def go(self):\n        self.__class__ = B", "name = f.__code__.co_name"],
    );
    check_rule(
        "code-replace",
        &["new = f.__code__.replace(co_filename='<frozen x>')", "raw = f.__code__.co_code"],
        &["names = f.__code__.co_varnames", "new = text.replace('a', 'b')"],
    );
}

#[test]
fn frame_access_is_flagged() {
    check_rule(
        "frames",
        &[
            "import sys\nf = sys._getframe(1)",
            "from sys import _getframe as g\nf = g(1)",
            "import sys\nf = getattr(sys, '_getframe')()",
            "import inspect\nf = inspect.stack()[1].frame",
            "import inspect\nf = inspect.stack()[1][0]",
            "import inspect\nframe, *rest = inspect.stack()[1]\nprint(frame)",
            "import inspect\nfor info in inspect.stack():\n    use(info.frame)",
            "values = f.f_locals",
            "def handler(number, frame):\n    use(frame.f_back)",
            "match error:\n    case ValueError(__traceback__=object(tb_frame=frame)):\n        use(frame)",
            "match frame:\n    case object(f_back=found) | object(f_locals={'co': found}):\n        pass",
            "match one, frame:\n    case 1, object(f_locals=table):\n        pass",
            "import sys\nmatch sys:\n    case object(_getframe=take):\n        frame = take()",
            "import sys\nmatch sys.modules['sys']:\n    case found:\n        frame = found._getframe()",
            "import sys\nmatch (sys.modules['sys'], 1):\n    case (found, _):\n        frame = found._getframe()",
            "import inspect\nmatch inspect.stack()[1]:\n    case [frame, *_]:\n        use(frame)",
            "import inspect\nmatch inspect.stack():\n    case [_, object(frame=frame), *_]:\n        pass",
            "import inspect\nstd = globals()['inspect']\nuse(std.stack()[1].frame)",
            "import inspect\nhere = globals()\nuse(here.get('inspect').stack()[1].frame)",
            "def go():\n    import inspect\n    use(locals()['inspect'].stack()[1].frame)",
            "import inspect\nuse(vars()['inspect'].stack()[1].frame)",
            "import sys\nuse(sys.modules[__name__].inspect.stack()[1].frame)",
            "import sys\nuse(sys.modules.__getitem__('inspect').stack()[1].frame)",
            "def load():\n    global std\n    import inspect as std\n\ndef go():\n    use(std.stack()[1].frame)",
            "import inspect\nclass A:\n    def load(self):\n        if self:\n            global std\n            std = inspect\n\n    def go(self):\n        use(std.stack()[1].frame)",
            "class Std:\n    import inspect\n\nuse(Std.inspect.getargvalues(row.frame))",
            "from roman.compat import std\nframe = std.currentframe()",
            "from roman.compat import currentframe",
            "from .compat import _getframe as take",
            "frame = getattr(std, '_getframe')()",
            "frames = held[0]._current_frames()",
            "match std:\n    case object(_getframe=take):\n        pass",
            "import inspect\nmatch inspect.stack():\n    case list(rows):\n        use(rows[0].frame)",
            "import asyncio\nfor frame in asyncio.current_task().get_stack():\n    use(frame)",
            "import asyncio\nfor task in asyncio.all_tasks():\n    use(task.get_stack())",
            "import pkgutil\ntake = pkgutil.resolve_name('sys:_getframe')\nframe = take()",
            "import pkgutil\nframe = pkgutil.resolve_name('sys:_getframe')()",
            "import pydoc\nframe = pydoc.locate('inspect.currentframe')()",
            "import pkgutil\nframe = pkgutil.resolve_name('sys')._getframe()",
        ],
        &[
            "import inspect, logging\nlogging.debug('by %s', inspect.stack()[1].function)",
            "import inspect, logging\nlogging.debug('stack %r', inspect.stack())",
            "import inspect\nname = inspect.stack()[1][3]",
            "import logging\nlogging.debug('x', stack_info=True)",
            "import warnings\nwarnings.warn('slow', stacklevel=2)",
            "import traceback\ntraceback.print_stack()",
            "class Window:\n    def show(self):\n        return self.currentframe()",
            "import asyncio\nname = asyncio.current_task().get_name()\nuse(parser.get_stack())",
            "import pkgutil\ndumps = pkgutil.resolve_name('json:dumps')\nuse(pkgutil.resolve_name(name))",
            "frame = window.current_frame()",
            "match shape:\n    case Point(x=0, y=y) | Line(end=Point(x=y)):\n        use(y)",
            "import json\nmatch json.loads(text):\n    case {'kind': kind, **rest}:\n        use(kind, rest)",
            "import sys\nmatch sys.platform, sys.version_info[:2]:\n    case 'win32', [major, _]:\n        use(major)",
            "import math\n\ndef go(kind):\n    match kind:\n        case math:\n            math.limit = 3",
        ],
    );
}

#[test]
fn heap_access_and_hooks_are_flagged() {
    check_rule(
        "heap",
        &[
            "import gc\nall = gc.get_objects()",
            "import gc\ngc.callbacks.append(f)",
            "import ctypes",
            "import unittest\nall = unittest.TestCase.__subclasses__()",
            "f.__getattribute__('__globals__')",
            "import sys\nfor m in sys.modules.values():\n    use(m)",
            "import sys\nfor name in list(sys.modules):\n    use(name)",
            "import sys\nnames = [name for name in sys.modules]",
            "import sys\nall = {**sys.modules}",
            "import sys\nall = [*sys.modules]",
            "import math\nvars(math).update(isclose=f)",
            "import math\nvars(math).__setitem__('isclose', f)",
            "import math\ntable = vars(math)\ntable.update(isclose=f)",
            "import math\ntable = vars(math)\ntable |= {'isclose': f}",
            "import math\nlook = vars\nlook(math).setdefault('isclose', f)",
            "import math\nexec('def isclose(a, b):\\n    return True', vars(math))",
            "import sys\nfor name, value in vars(sys).items():\n    use(name, value)",
            "import sys\nvars(sys.modules[name]).update(table)",
            "import math\ngetattr(math, '__dict__').update(isclose=f)",
            "import math\nread = vars(math)[name]",
            "import sys\nall = dict(more=1, **sys.modules)",
            "import sys\nfor finder in sys.meta_path:\n    pass",
            "import sys\nmatch sys.meta_path:\n    case [hook, *_]:\n        pass",
            "import sys\nmatch sys.modules:\n    case {'json': _, **others}:\n        pass",
            "import sys\nmatch sys.modules:\n    case table:\n        use(table.values())",
            "import traceback\nmatch traceback.print_list:\n    case object(__globals__={'linecache': lines}):\n        pass",
            "match kind:\n    case type(__subclasses__=found) | object(__dict__=found):\n        pass",
            "import collections\nall = vars(collections)['_sys'].modules.items()",
            "import collections\nall = getattr(collections, '_sys').modules.items()",
            "import sys\nsession = sys.meta_path[0].session",
            "import sys\nheld = sys.getrefcount(other)",
            "import tracemalloc\nmade = tracemalloc.get_object_traceback(other)",
            "def go(callback):\n    return callback.__globals__",
            "import operator\nget = operator.attrgetter('__traceback__.tb_frame')",
            "import string\nget = string.Formatter().get_field('0.f_back', found, {})",
            "text = '{0.__globals__[table]}'.format(go)",
            "import inspect\nheld = inspect.getclosurevars(callback).nonlocals",
            "def cells(callback):\n    return callback.__closure__",
            "def held(cell):\n    return cell.cell_contents",
            "for kind in ().__class__.__base__.__subclasses__():\n    use(kind)",
            "kinds = type(self).__mro__[-1].__subclasses__()",
            "import re\npatterns = list(re._cache)",
            "held = std.get_referents(callback)",
            "names = std.getclosurevars(callback)",
            "import pdb\nowner = pdb.set_trace.__self__",
            "import pdb\nsession = owner_of(pdb.set_trace)",
            "from pdb import set_trace\nhooks = [set_trace]",
            "import pkgutil\nall = pkgutil.resolve_name('gc:get_objects')()",
            "names = super(type(module), module).__dict__",
            "names = object.__getattribute__(module, '__dict__')",
            "names = type(module).__mro__[1].__dict__",
            "import collections\nall = collections._sys.modules.items()",
            "from multiprocessing import sharedctypes\nread = sharedctypes.ctypes.string_at",
            "from multiprocessing.sharedctypes import ctypes\nread = ctypes.string_at",
            "import shutil\nfinder = shutil.os.sys.meta_path[0]",
        ],
        &[
            "import sys\nsys.meta_path.append(finder)",
            "import sys\nmodule = sys.modules[kind.__module__]",
            "import operator\nget = operator.attrgetter('name.first')",
            "text = '{0.name}'.format(person)",
            "import gc\ngc.disable()\ngc.collect()",
            "import pdb\npdb.set_trace()",
            "class Plugin:\n    pass\n\nall = Plugin.__subclasses__()",
            "def all_of(kind):\n    return kind.__subclasses__()",
            "owner = callback.__self__",
            "class A:\n    def names(self):\n        return object.__getattribute__(self, '__dict__')",
            "value = object.__getattribute__(it, name)",
            "import os\nhere = os.path.dirname(__file__)",
            "import importlib.util\nspec = importlib.util.find_spec('json')",
            "def names_of(it):\n    return vars(it)",
            "here = vars()",
            "import math\nturn = vars(math)['tau']",
            "from roman import table\nnames = list(vars(table))",
            "import argparse\nargs = argparse.ArgumentParser().parse_args()\nuse(**vars(args))",
            "import scipy.signal\ny = scipy.signal.detrend(x)",
            "import sys\nknown = 'json' in sys.modules",
        ],
    );
    check_rule(
        "hooks",
        &[
            "import sys\nsys.settrace(f)",
            "import sys\nsys.addaudithook(f)",
            "import sys\nsys.monitoring.use_tool_id(1, 'x')",
            "import threading\nthreading.setprofile(f)",
            "import cProfile\nwatch = cProfile.Profile()\nfor entry in watch.getstats():\n    use(entry.code)",
            "import signal\nsignal.setitimer(signal.ITIMER_REAL, .1)",
            "def go(loop):\n    loop.set_task_factory(make)",
        ],
        &[
            "import signal\nsignal.signal(signal.SIGTERM, stop)",
            "import tracemalloc, cProfile, faulthandler\ntracemalloc.start()\nfaulthandler.enable()",
            "import sys\nsys.setrecursionlimit(5000)",
        ],
    );
}

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
fn hidden_names_are_flagged() {
    check_rule(
        "hidden-name",
        &[
            "f = getattr(module, '_get' + 'frame')",
            "import base64\ntext = base64.b64decode('aW1wb3J0')",
            "text = bytes.fromhex('696d706f7274')",
            "text = 'emarfteg_'[::-1]",
            "import ｓｙｓ",
            "ｅxec = 1\nｅxec(2)",
            "class date(B):\n    __module__ = 'datetime'",
            "D = type('D', (B,), {'__module__': '_pytest.python'})",
            "from gc import *",
        ],
        &[
            "f = getattr(module, name)",
            "f = getattr(module, 'go')",
            "import base64\ntext = base64.b64decode(text)",
            "last = text[::-1]",
            "größe = 1\nuse(größe)",
            "class A:\n    __module__ = 'roman'",
        ],
    );
}

#[test]
fn unreadable_code_is_flagged() {
    let brackets = format!("x = {}1", "(".repeat(300));
    let signs = format!("x = {}1", "- ".repeat(30_000));
    let sum = format!("x = 1{}", " + 1".repeat(5_000));
    for (path, text, why) in [
        ("roman/_fast.cpython-312-x86_64-linux-gnu.so", "x", "compiled code"),
        ("roman/zones.bin", "PK\u{3}\u{4}x", "compiled code"),
        ("roman/zones.dat", "#!/bin/sh\nPK\u{5}\u{6}x", "compiled code"),
        ("roman/zones", "\u{7f}ELFx", "compiled code"),
        ("roman/a.py", "# -*- coding: utf-7 -*-\nx = 1", "encoding utf-7"),
        ("roman/a.py", brackets.as_str(), "nested too deeply"),
        ("roman/a.py", signs.as_str(), "nested too deeply"),
        ("roman/a.py", sum.as_str(), "nested too deeply"),
    ] {
        let found = findings_in(path, "", text, None);
        let is_named = |one: &Finding| one.rule == "unreadable-code" && one.snippet == why;
        assert!(found.iter().any(is_named), "{why}: {found:?}");
    }
    assert_clean("", "# coding: utf-8\nx = 1", None);
    assert_clean("", "def go(:\n    x = 1", None);
}

#[test]
fn latin_1_names_are_resolved() {
    // The letter is a single byte, which is not valid UTF-8.
    let code = "# coding: latin-1\nimport sys as \u{e9}\nframe = \u{e9}._getframe()";
    let text = patch("roman/a.py", "", code);
    let bytes: Vec<u8> = text.chars().map(|letter| u8::try_from(letter).unwrap()).collect();
    let (before, owned) = (BTreeMap::new(), BTreeSet::new());
    let screened = |_: &str| true;
    let input = ScreeningInput {
        patch: &bytes,
        gold_patch: None,
        original_files: &before,
        owned_modules: &owned,
        is_judged_by_pytest: false,
        is_screened: &screened,
    };
    let found = screen(&input).unwrap().findings;
    let rules: Vec<&str> = found.iter().map(|finding| finding.rule.as_str()).collect();
    assert_eq!(rules, ["frames"], "{found:?}");
}

#[test]
fn encoding_on_second_line_counts_only_after_blank_line_or_comment() {
    // Python reads all of these as UTF-8, and the letter before `_locals` as `f`.
    for start in ["import inspect\n", "x = 1\r", "x = 1\r\n", "\u{feff}x = 1\n", "\n\n"] {
        let code = format!("{start}# coding: latin-1\nfound = frame.\u{ff46}_locals");
        assert!(violated_rules(&code).contains("frames"), "{code:?}");
    }
    // Python reads all of these as Latin-1.
    for start in ["", "\n", "\r", "\r\n", "# x\n", " \t# x\r", "\u{c}\n"] {
        let code = format!("{start}# coding: utf-7\nx = 1");
        assert!(violated_rules(&code).contains("unreadable-code"), "{code:?}");
        assert_clean("", &format!("{start}# coding: latin-1\nx = 1"), None);
    }
    assert_clean("", "import json\n# coding: utf-7\nx = 1", None);
}

#[test]
fn annotations_are_screened() {
    check_rule(
        "frames",
        &[
            "import sys\nchain: [frame := sys._getframe()]",
            "import sys\ndef go(x: sys._getframe(1)):\n    pass",
            "import sys\ndef go(*x: sys._getframe(1)):\n    pass",
            "import sys\ndef go() -> sys._getframe(1):\n    pass",
            "import sys\nclass A:\n    x: 'list[sys._getframe()]'",
            "import sys\ndef go[T: sys._getframe()](x: T):\n    pass",
            "import sys\nclass A[T: sys._getframe()]:\n    pass",
        ],
        &[
            "import types\ndef go(frame: types.FrameType) -> 'types.FrameType | None':\n    pass",
            "from typing import Literal\nx: Literal['a.b', 'c(', 'd: e'] = 'a.b'",
            "import datetime\ndef go(day: 'datetime.date', *rest: \"list[int]\") -> None:\n    pass",
        ],
    );
}

#[test]
fn findings_in_base_or_gold_are_excused() {
    let code = "import sys\nframe = sys._getframe(1)";
    assert_eq!(findings_in("roman/a.py", "", code, None).len(), 1);
    assert_clean("", code, Some(code));
    let old = "import sys\nold = sys._getframe(1)\n";
    assert_clean(old, "new = sys._getframe(1)", None);
    // A violation of another rule is not excused.
    let other = findings_in("roman/a.py", old, "import gc\nall = gc.get_objects()", Some(code));
    assert_eq!(other.len(), 1, "{other:?}");
    assert_eq!((other[0].evidence.as_str(), other[0].line), ("introspection_added", 4));
    assert_eq!(other[0].snippet, "all = gc.get_objects()");
}

/// Returns the rules that a patch of several new files violates.
fn violated_rules_in_files(files: &[(&str, &str)]) -> BTreeSet<String> {
    let patch: String = files.iter().map(|(path, text)| patch(path, "", text)).collect();
    let (before, owned) = (BTreeMap::new(), BTreeSet::from(["roman".to_owned()]));
    let screened = |_: &str| true;
    let input = ScreeningInput {
        patch: patch.as_bytes(),
        gold_patch: None,
        original_files: &before,
        owned_modules: &owned,
        is_judged_by_pytest: false,
        is_screened: &screened,
    };
    screen(&input).unwrap().findings.into_iter().map(|finding| finding.rule).collect()
}

#[test]
fn equivalent_expression_in_base_excuses_finding() {
    for (old, new) in [
        ("import inspect, sys\nold = inspect.currentframe()\n", "new = sys._getframe()"),
        ("import inspect, sys\nold = sys._getframe()\n", "new = inspect.currentframe()"),
        ("import signal\nsignal.alarm(3)\n", "signal.setitimer(signal.ITIMER_REAL, 3.0)"),
        (
            "import sys\nold = sys.modules.items()\n",
            "for new in sys.modules.copy().items():\n    pass",
        ),
        (
            "import sys\nfor number, old in enumerate(sys.meta_path):\n    pass\n",
            "for new in sys.meta_path:\n    new.find_spec('roman')",
        ),
    ] {
        assert_clean(old, new, None);
        assert_clean("", new, Some(&format!("{old}{new}")));
        let module = old.lines().next().unwrap();
        assert!(!violated_rules(&format!("{module}\n{new}")).is_empty(), "{new}");
    }
    for (old, new, rule) in [
        (
            "import inspect, sys\nold = inspect.currentframe()\n",
            "new = sys._current_frames()",
            "frames",
        ),
        ("import inspect, sys\nold = inspect.currentframe()\n", "new = old.f_back", "frames"),
        ("import signal, sys\nsignal.alarm(3)\n", "sys.settrace(f)", "hooks"),
        ("import gc, sys\nold = sys.modules.items()\n", "new = gc.get_objects()", "heap"),
        ("import sys\nold = 'json' in sys.modules\n", "new = sys.modules.values()", "heap"),
    ] {
        let found = findings_in("roman/a.py", old, new, None);
        assert!(found.iter().any(|finding| finding.rule == rule), "{old}{new}: {found:?}");
    }
}

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

#[test]
fn file_in_unsupported_language_is_listed_as_not_screened() {
    let (before, owned) = (BTreeMap::new(), BTreeSet::new());
    let text = patch("src/a.zig", "", "pub fn main() void {}");
    let screened = |_: &str| true;
    let input = ScreeningInput {
        patch: text.as_bytes(),
        gold_patch: None,
        original_files: &before,
        owned_modules: &owned,
        is_judged_by_pytest: false,
        is_screened: &screened,
    };
    let screening = screen(&input).unwrap();
    assert_eq!(
        (screening.findings.len(), screening.unscreened_files),
        (0, vec!["src/a.zig".into()])
    );
}

#[test]
fn large_patch_is_screened_within_time_limit() {
    let unit =
        "def go(a, b):\n    return math.sqrt(a.x + b[0]) if a else json.dumps({'a': b})\n\n\n";
    let code = format!("import json, math\n{}", unit.repeat(500));
    findings_in("roman/a.py", "", "x = 1", None);
    let start = Instant::now();
    assert_clean("", &code, None);
    // The patch has 2000 lines. The limit of 50 ms applies to optimized builds.
    let limit = if cfg!(debug_assertions) { 2000 } else { 50 };
    assert!(start.elapsed() < Duration::from_millis(limit), "{:?}", start.elapsed());
}
