//! Tests of raw memory, of frames that signal handlers receive, and of attributes without a name in
//! the code.

use super::{assert_clean, check_rule, findings_in};

#[test]
fn raw_memory_is_flagged() {
    check_rule(
        "raw-memory",
        &[
            "class At:\n    def __init__(self, address):\n        self.__array_interface__ = {'data': (address, True)}",
            "class At:\n    @property\n    def __array_interface__(self):\n        return {'data': (self.address, True)}",
            "class At:\n    __array_struct__ = capsule",
            "import types\nat = types.SimpleNamespace(__array_interface__=table)",
            "setattr(at, '__cuda_array_interface__', table)",
            "at = type('At', (), {'__array_interface__': table})",
            "start = base.__array_interface__['data'][0]",
            "import numpy\nword = type(numpy.zeros(1).ctypes.shape)._type_",
            "value = word.from_address(address).value",
            "item = type(word)('Item', (word.__base__,), {'_type_': 'O'})",
            "import numpy as np\nrows = np.lib.stride_tricks.as_strided(base, (2,), (step,))",
            "from numpy.lib.stride_tricks import as_strided\nrows = as_strided(base, (2,), (step,))",
            "tricks = np.lib.stride_tricks\nrows = tricks.as_strided(base)",
            "import pyarrow\nmemory = pyarrow.foreign_buffer(address, 8)",
            "word = read(id(code) + 24)",
            "word = read(-8 + id(code))",
        ],
        &[
            "import numpy as np\nrows = np.lib.stride_tricks.sliding_window_view(base, 3)",
            "class A:\n    def __hash__(self):\n        return id(self) >> 4",
            "name = 'at 0x%x' % id(self)",
            "key = id(one) + id(other)",
            "kind = schema.type_",
        ],
    );
}

#[test]
fn raw_memory_in_base_excuses_the_same_attribute_of_any_object() {
    let old = "def start(one):\n    return one.__array_interface__['data'][0]\n";
    assert_clean(old, "first = other.__array_interface__['shape']", None);
    let found = findings_in("roman/a.py", old, "word = kind.from_address(4)", None);
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn frames_of_signal_handlers_are_flagged() {
    check_rule(
        "frames",
        &[
            "import signal\ndef stop(number, frame):\n    use(dir(frame))\n\nsignal.signal(signal.SIGUSR1, stop)",
            "import signal\ndef stop(number, frame):\n    while frame:\n        frame = up(frame)\n\nsignal.signal(signal.SIGUSR1, stop)",
            "import signal\nsignal.signal(signal.SIGUSR1, lambda number, frame: FRAMES.append(frame))",
            "from signal import SIGUSR1, signal\nclass A:\n    def start(self):\n        signal(SIGUSR1, self.stop)\n\n    def stop(self, number, frame):\n        self.frame = frame",
            "import signal\ndef stop(number, frame):\n    keep(number, frame)\n\ndef keep(number, where):\n    FOUND[number] = where\n\nsignal.signal(signal.SIGUSR1, stop)",
            "import functools, signal\ndef stop(keep, number, frame):\n    keep[number] = frame\n\nsignal.signal(signal.SIGUSR1, functools.partial(stop, {}))",
            "import signal\ndef stop(*given):\n    FOUND[0] = given[1]\n\nhandler = stop\nsignal.signal(signal.SIGUSR1, handler)",
            "import signal\nclass Stop:\n    def __call__(self, number, frame):\n        self.frame = frame\n\nsignal.signal(signal.SIGUSR1, handler=Stop())",
            "import signal\ndef stop(number, frame):\n    print(frame)\n\nsignal.signal(signal.SIGUSR1, stop)",
        ],
        &[
            "import signal\ndef stop(number, frame):\n    STOPPED.append(number)\n\nsignal.signal(signal.SIGTERM, stop)",
            "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *given: sys.exit(0))",
            "import signal\nbefore = signal.getsignal(signal.SIGTERM)\ndef stop(number, frame):\n    before(number, frame)\n\nsignal.signal(signal.SIGTERM, stop)",
            "import signal\ndef stop(number, frame):\n    signal.default_int_handler(number, frame)\n\nsignal.signal(signal.SIGTERM, stop)",
            "import signal, traceback\ndef show(number, frame):\n    traceback.print_stack(frame)\n\nsignal.signal(signal.SIGUSR1, show)",
            "import signal\nclass A:\n    def start(self):\n        signal.signal(signal.SIGTERM, self.stop)\n\n    def stop(self, number, frame):\n        self.close(number, frame)\n\n    def close(self, number, frame):\n        self.number = number",
            "import signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)",
            "def draw(number, frame):\n    frame.show(number)",
        ],
    );
    check_rule(
        "own-signal",
        &[
            "import signal\nsignal.signal(signal.SIGUSR1, handlers['a'])\nsignal.raise_signal(signal.SIGUSR1)",
            "from signal import SIGUSR1, pthread_kill, signal\nsignal(SIGUSR1, handlers[0])\npthread_kill(thread, SIGUSR1)",
        ],
        &[
            "import signal\nsignal.signal(signal.SIGTERM, handlers['a'])",
            "import signal\nsignal.raise_signal(signal.SIGTERM)",
        ],
    );
}

#[test]
fn attributes_selected_by_position_are_flagged() {
    check_rule(
        "attribute-by-position",
        &[
            "value = getattr(it, dir(it)[3])",
            "names = [name for name in dir(it) if name[:2] == 'f_']\nvalue = getattr(it, names[3])",
            "names = dir(it)\nname = names[-1]\nvalue = getattr(it, name)",
            "names = sorted(dir(it))\nvalue = getattr(it, names.pop(3))",
            "first, second, *rest = dir(it)\nvalue = getattr(it, second)",
            "value = getattr(it, min(dir(it)))",
            "value = getattr(it, next(name for name in dir(it) if len(name) == 6))",
            "import operator\nread = operator.attrgetter(it.__dir__()[3])",
        ],
        &[
            "for name in dir(it):\n    use(getattr(it, name))",
            "names = [name for name in dir(it) if not name.startswith('_')]\nuse(names[0])",
            "values = {name: getattr(it, name) for name in dir(it)}\nname = values['name']\nuse(getattr(it, name))",
            "value = getattr(it, parts[0])",
            "here = dir()\nuse(here[0])",
        ],
    );
}

#[test]
fn modules_named_by_logs_and_warnings_are_flagged() {
    check_rule(
        "caller-module",
        &[
            "import logging, pathlib, sys\nclass Keep(logging.Handler):\n    def emit(self, record):\n        PLACES.append(pathlib.Path(record.pathname).stem)\n\nuse(sys.modules[PLACES[0]])",
            "import pathlib, pydoc, warnings\nwith warnings.catch_warnings(record=True) as found:\n    warnings.warn('slow', stacklevel=2)\nstem = pathlib.Path(found[0].filename).stem\nuse(pydoc.locate(f'{stem}.CASES'))",
        ],
        &[
            "import logging\nclass Keep(logging.Handler):\n    def emit(self, record):\n        use(record.pathname, record.funcName)",
            "import sys, warnings\nwith warnings.catch_warnings(record=True) as found:\n    go()\nuse(found[0].message, sys.modules[name])",
        ],
    );
    check_rule(
        "indirect-reader",
        &["import string\nrows = string.Formatter().get_field('0.' + name, [module], {})"],
        &["import string\nparts = list(string.Formatter().parse(text))"],
    );
}
