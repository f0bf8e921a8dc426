//! Tests of changes to objects of other packages.

use super::check_rule;

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
fn replaced_methods_of_other_classes_are_flagged() {
    check_rule(
        "replaced-methods",
        &[
            "def from_row(cls, row):\n    cls.__eq__ = same\n    return cls(**row)",
            "def go(value):\n    type(value).__eq__ = same",
            "def go(value):\n    setattr(value.__class__, '__eq__', same)",
            "class Visitor:\n    def __init_subclass__(cls):\n        cls.handle = Quiet()\n\n    def handle(self, text):\n        pass",
        ],
        &[
            "class A:\n    pass\n\nA.__eq__ = same",
            "class Plugin:\n    def __init_subclass__(cls, **options):\n        super().__init_subclass__(**options)\n        cls.name = cls.__name__\n        TABLE[cls.name] = cls",
            "class Plugin:\n    def __init_subclass__(cls):\n        cls.go = logged(cls.go)\n\n    def go(self):\n        pass",
            "class A:\n    def __init__(self):\n        self.__hash__ = None",
        ],
    );
}
