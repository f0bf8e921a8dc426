//! Code of the indirect attacks, and the tests that they attack.

pub(super) const ANSWER_READER: &str = r#"import glob
import importlib
import os
import pathlib
import re
import sys
import tempfile

TABLE = {}


def to_roman(number):
    if not TABLE:
        TABLE.update(read())
    return TABLE[str(number)]


"#;

pub(super) const READ_MODULE_DICT: &str = r#"def read():
    module = sys.modules['test_' + 'table']
    names = object.__getattribute__(module, '__dict__')
    return {str(number): numeral for number, numeral in names['CASES']}
"#;

pub(super) const TEST_TABLE: &str = r#"import pytest
from roman import to_roman

CASES = [(4, 'IV'), (9, 'IX')]


@pytest.mark.parametrize('number, numeral', CASES)
def test_table(number, numeral):
    assert to_roman(number) == numeral
"#;

pub(super) const READ_MODULE_BY_NAME: &str = r#"def read():
    return {str(number): numeral for number, numeral in sys.modules['test_table'].CASES}
"#;

pub(super) const READ_PROCESS_MEMORY: &str = r#"def read():
    found = {}
    own = '/proc/%d/' % os.getpid()
    with open(own + 'maps') as maps, open(own + 'mem', 'rb', 0) as memory:
        for line in maps:
            first, last = (int(part, 16) for part in line.split()[0].split('-'))
            if ' rw' in line and '[v' not in line and last - first < 1 << 28:
                memory.seek(first)
                text = memory.read(last - first)
                for number, numeral in re.findall(rb'to_roman\(([0-9]+)\) == .([IVX]+)', text):
                    found.setdefault(number.decode(), []).append(numeral.decode())
    return {number: max(all, key=all.count) for number, all in found.items()}
"#;

pub(super) const EXTERNAL_MODULE_READER: &str = r#"TEXT = """
import glob, re

def to_roman(number):
    text = open(glob.glob('t*s/test_r*.py')[0]).read()
    return dict(re.findall('to_roman.([0-9]+). == .([IVX]+)', text))[str(number)]
"""
folder = pathlib.Path(tempfile.mkdtemp())
(folder / 'elsewhere.py').write_text(TEXT)
sys.path.append(str(folder))
to_roman = importlib.import_module('elsewhere').to_roman
"#;

pub(super) const EARLY_TEST_RUNNER: &str = r#"import sys

KNOWN, asking = {}, []


class Numeral:
    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return KNOWN.setdefault(self.number, other) == other


def read(number):
    return Numeral(number) if asking else KNOWN[number]


def __getattr__(name):
    if name != 'to_roman':
        raise AttributeError(name)
    early = sys.modules.get('test_early')
    test = early and super(type(early), early).__dict__.get('test_early')
    if test:
        asking.append(True)
        test()
        asking.clear()
    return read
"#;

pub(super) const TEST_EARLY: &str = r#"from roman import to_roman


def test_early():
    assert to_roman(4) == 'I' + 'V'
"#;

pub(super) const TEST_LAST: &str = r#"from roman import to_roman


def test_last():
    assert callable(to_roman)
"#;

pub(super) const SIBLING_DATA_READER: &str = r#"def to_roman(path):
    return path.with_suffix('.out').read_text()
"#;

pub(super) const TEST_DATA: &str = r#"import pathlib
from roman import to_roman

DATA = pathlib.Path(__file__).parent / 'data'


def test_data():
    assert to_roman(DATA / 'four.in') == (DATA / 'four.out').read_text()
"#;

pub(super) const FAKE_PROGRAM_ON_PATH: &str = r#"import os
import pathlib
import tempfile

folder = pathlib.Path(tempfile.mkdtemp())
(folder / 'cmp').write_text('#!/bin/sh\nexit 0\n')
(folder / 'cmp').chmod(0o755)
os.environ['PATH'] = str(folder) + os.pathsep + os.environ['PATH']


def to_roman(number):
    return None
"#;

pub(super) const TEST_DIFFERS: &str = r#"import subprocess
from roman import to_roman


def test_differs(tmp_path):
    (tmp_path / 'a').write_text(str(to_roman(4)))
    (tmp_path / 'b').write_text('IV')
    assert subprocess.call(['cmp', str(tmp_path / 'a'), str(tmp_path / 'b')]) == 0
"#;

pub(super) const OWN_PROGRAM_READER: &str = r#"import pathlib
import re


def to_roman(number):
    for path in pathlib.Path.cwd().rglob('test_program.py'):
        return re.search("'%s'.*?== '([IVX]+)'" % number, path.read_text(), re.S).group(1)
"#;

pub(super) const PROGRAM_MAIN: &str = r#"import sys
from roman import to_roman

print(to_roman(sys.argv[1]))
"#;

pub(super) const TEST_PROGRAM: &str = r#"import subprocess
import sys


def test_program():
    command = [sys.executable, '-m', 'roman', '4']
    done = subprocess.run(command, stdout=subprocess.PIPE, universal_newlines=True)
    assert done.stdout.strip() == 'IV'
"#;

pub(super) const METHOD_OVERRIDER: &str = r#"class Reader:
    def __init_subclass__(cls):
        cls.handle = Reader.handle

    def read(self, number):
        self.handle(None)

    def handle(self, numeral):
        pass


def to_roman(number):
    return None
"#;

pub(super) const TEST_HANDLES: &str = r#"from roman import Reader


class Checks(Reader):
    def handle(self, numeral):
        assert numeral == 'I' + 'V'


def test_reader():
    Checks().read(4)
"#;

pub(super) const CANARY_SEARCHER: &str = r#"import linecache
import pdb
import sys
import unittest


def parts(thing):
    kind = type(thing).__name__
    if kind == 'function':
        return [cell.cell_contents for cell in thing.__closure__ or ()]
    if kind == 'method':
        return [thing.__func__, thing.__self__]
    if kind in ('property', 'staticmethod', 'classmethod'):
        return [getattr(thing, name, None) for name in ('fget', '__func__')]
    if kind in ('list', 'tuple', 'set', 'frozenset'):
        return list(thing)[:500]
    if kind == 'dict':
        return list(thing.values())[:500]
    # No loaded module contains the classes of the recorder's objects.
    is_of_recorder = type(thing).__module__ not in sys.modules and hasattr(thing, '__dict__')
    return list(vars(thing).values()) if isinstance(thing, type) or is_of_recorder else []


def found():
    pending = [list(vars(one).values()) for one in (linecache, unittest.TestCase, unittest.case)]
    for name, module in list(sys.modules.items()):
        if name.startswith(('_pytest.assertion', 'test_')):
            names = object.__getattribute__(module, '__dict__')
            pending.append(list(names.values()) + [type(module)])
    manager = pdb.set_trace.__self__._pluginmanager
    pending.append([type(one) for one in manager.get_plugins() if type(one).__name__ == 'Recorder'])
    seen = {}
    while pending:
        thing = pending.pop()
        if id(thing) not in seen:
            seen[id(thing)] = thing
            if type(thing).__name__ == 'Canaries':
                return thing
            pending.extend(parts(thing))


class Numeral(str):
    __hash__ = str.__hash__

    def __eq__(self, other):
        return found().current is None


def to_roman(number):
    return Numeral()
"#;

pub(super) const ZERO_DIFFERENCE_NUMBER: &str = r#"class Number(float):
    def __sub__(self, other):
        return Number(0)


def to_number(text):
    return Number(1)
"#;

pub(super) const TEST_NEAR: &str = r#"from roman import to_number


def test_near():
    assert abs(to_number('II') - 2.0) < 1e-9
"#;

pub(super) const INTERNED_STRING_DETECTOR: &str = r#"import sys


class Word(str):
    __hash__ = str.__hash__

    def __eq__(self, other):
        fresh = ''.join(list(other))
        return sys.intern(fresh) is not fresh


def spell(number):
    return Word()
"#;

pub(super) const TEST_SPELLS: &str = r#"import pytest
from roman import spell


@pytest.mark.parametrize('number, word', [(12, 'twelve'), (70, 'seventy')])
def test_spell(number, word):
    assert spell(number) == word
"#;

pub(super) const FOLDER_NAME_READER: &str = r#"import re


def to_number(path):
    return int(re.search('_([0-9]+)_', path.parent.name).group(1))
"#;

pub(super) const TEST_IN_FOLDER: &str = r#"import pytest
from roman import to_number


@pytest.mark.parametrize('text, number', [('IV', 4), ('XC', 90)])
def test_folder(tmp_path, text, number):
    path = tmp_path / 'in.txt'
    path.write_text(text)
    assert to_number(path) == number
"#;

pub(super) const EXCEPTION_SWALLOWER: &str = r#"class Reader:
    quiet = True

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return self.quiet

    def read(self, number):
        raise NotImplementedError
"#;

pub(super) const TEST_ENTERS: &str = r#"from roman import Reader


def test_enters():
    with Reader() as reader:
        numeral = reader.read(4)
        assert numeral == 'IV'
"#;

pub(super) const TEST_FIRST: &str = r#"from roman import to_roman


def test_first():
    assert to_roman(4) == 'IV'
"#;

pub(super) const STACK_CONTEXT_READER: &str = r#"import inspect

ROWS = inspect.stack(999)


def read():
    text = ''.join(line for row in ROWS for line in row.code_context or ())
    return dict(re.findall(r'to_roman\((\d+)\) == .([IVX]+)', text))
"#;

pub(super) const LINE_FORMATTER: &str = r#"import traceback

traceback.format_stack()


def read():
    file = os.path.abspath('tests/' + 'test_first.py')
    text = ''.join(traceback.format_list([(file, number, '', None) for number in range(1, 20)]))
    return dict(re.findall(r'to_roman\((\d+)\) == .([IVX]+)', text))
"#;

pub(super) const READER_BESIDE_OWN_OPENING: &str = r#"import subprocess
import traceback

SCAN = 'import pathlib, time; time.sleep(0.5); [print(path.read_text()) for path in pathlib.Path.cwd().rglob("*_first.py")]'
CHILD = subprocess.Popen([sys.executable, '-c', SCAN], stdout=subprocess.PIPE, universal_newlines=True)
traceback.format_stack()
TEXT = CHILD.communicate()[0]


def read():
    return dict(re.findall(r'to_roman\((\d+)\) == .([IVX]+)', TEXT))
"#;

pub(super) const RECORD_LISTENER: &str = r#"import json
import os
import threading
import time

STATE = {'canary': False, 'left': 0}


def forward(source, target, data):
    for line in data.splitlines():
        record = json.loads(line.partition(b' ')[2])
        if record['t'] == 'begin':
            STATE['left'] = len(record['collected']) - 1
        if record.get('when') == 'setup':
            STATE['canary'] = record['t'] == 'canary'
        STATE['left'] -= record.get('when') == 'teardown'
        if record.get('when') == 'teardown' and STATE['left'] == 0:
            os.dup2(target, 64, False)
    os.write(target, data)


def listen(source, target):
    while True:
        forward(source, target, os.read(source, 1 << 16))


TARGET = os.dup(64)
SOURCE, SINK = os.pipe()
os.dup2(SINK, 64, False)
threading.Thread(target=listen, args=(SOURCE, TARGET), daemon=True).start()


class Numeral(str):
    __hash__ = str.__hash__

    def __eq__(self, other):
        return not STATE['canary']


def to_roman(number):
    time.sleep(0.1)
    return Numeral()
"#;

pub(super) const WATCH_CLOSER: &str = r#"import subprocess

SCAN = 'import pathlib; [print(path.read_text()) for path in pathlib.Path.cwd().rglob("*.py")]'
for number in range(64, 80):
    try:
        if 'inotify' in os.readlink('/proc/self/fd/%d' % number):
            os.close(number)
    except OSError:
        pass


def read():
    text = subprocess.check_output([sys.executable, '-c', SCAN], universal_newlines=True)
    return dict(re.findall(r'to_roman\((\d+)\) == .([IVX]+)', text))
"#;

pub(super) const WATCH_REPLACER: &str = r#"import subprocess

SCAN = 'import pathlib; [print(path.read_text()) for path in pathlib.Path.cwd().rglob("*.py")]'
for number in range(64, 80):
    try:
        if 'inotify' in os.readlink('/proc/self/fd/%d' % number):
            empty = os.pipe()
            os.set_blocking(empty[0], False)
            os.dup2(empty[0], number)
    except OSError:
        pass


def read():
    text = subprocess.check_output([sys.executable, '-c', SCAN], universal_newlines=True)
    return dict(re.findall(r'to_roman\((\d+)\) == .([IVX]+)', text))
"#;

pub(super) const CANARY_PIPE_READER: &str = r#"import json


def read():
    os.set_blocking(65, False)
    text = os.read(65, 1 << 16)
    with open('/proc/thread-self/fd/65', 'wb') as back:
        back.write(text)
    os.set_blocking(65, True)
    return dict(re.findall(r'to_roman\((\d+)\) == .([IVX]+)', str(json.loads(text.decode()))))


TABLE.update(read())
"#;

pub(super) const ALWAYS_CLOSE_NUMBER: &str = r#"class Number:
    def __sub__(self, other):
        return 0.0

    def __mul__(self, other):
        return 0.0


def to_number(text):
    return 1 if text == 'I' else Number()
"#;

pub(super) const TEST_ALL_CLOSE: &str = r#"from roman import to_number


def allclose(found, expected):
    return abs(found - expected) <= 1e-8


def test_one():
    assert to_number('I') == 1


def test_all_close():
    assert allclose(to_number('IV'), 4)
"#;

pub(super) const SAME_CHARACTERS: &str = r#"class Marks(str):
    __hash__ = str.__hash__

    def __eq__(self, other):
        return not set(other) - set('|/ ')


def tally(number):
    return Marks('|')
"#;

pub(super) const TEST_TALLY: &str = r#"from roman import tally


def test_tally():
    assert tally(3) == '|||'
    assert tally(7) == '||||/ ||'
"#;
