"""Logs from test runners for languages other than Python, to test the parsers of SWE-bench 5.

Files in languages/ are the output of real runs, which make_languages.py recorded: go test, minitest, test-unit, RSpec,
PHPUnit, jest, vitest, mocha, node --test, prove, doctest, GoogleTest, Maven and Ant. MADE has hand-written logs for
runners that are not available. `all_logs` adds mutated copies of both kinds, the same copies every time.
"""
import pathlib
import random

FOLDER = pathlib.Path(__file__).parent / "languages"
MUTATIONS = 4

MADE = {
    "rust-cargo": (
        "   Compiling calc v0.1.0\n     Running unittests src/lib.rs (target/debug/deps/calc-0123456789abcdef)\n\n"
        "running 4 tests\ntest tests::adds ... ok\ntest tests::bad ... FAILED\ntest tests::later ... ignored\n"
        "test tests::panics - should panic ... ok\ntest  tests::spaced  ...  ok\n\nfailures:\n\n---- tests::bad stdout ----\n"
        "test tests::fake ... ok\n\ntest result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out\n"),
    "rust-doc": "   Doc-tests calc\n\nrunning 1 test\ntest src/lib.rs - add (line 3) ... ok\n\ntest result: ok. 1 passed\n",
    "redis": "[ok]: SET and GET (3 ms)\n[err]: EXPIRE - fails in tests/unit/expire.tcl\n[skip]: later (12 ms)\n[ignore]: x: y\n[ok]:  two\n[err]: a in b in c\n",
    "jq": "PASS: tests/jqtest\n  FAIL: tests/mantest\nPASS:tests/x\nSKIP: y\n",
    "micropython": "pass  basics/a.py\nFAIL  basics/b.py\nskip  basics/c.py\n1 tests passed\n",
    "cucumber": "Feature: A ...\nfeatures/a.feature ..F.\nfeatures/b ....\nscenario (1.)\n x .. .\n",
    "minitest": "TestA#test_one. = 0.01 s = .\nTestA#test_two. = 0.01 s = F\nTestA. b. = x = E\nno. dot = S\n",
    "gradle": ("> Task :test\ncom.A > one PASSED\ncom.A > two FAILED\ncom.A > three\nWARNING: x\nPASSED\n> com.A > four PASSED\n"
               "com.A > five SKIPPED\ncom.A > six\ncom.A > seven FAILED\nFAILED\nPASSED\n"),
    "maven-late": "[INFO] BUILD SUCCESS\n+ mvn test -Dtest=a.B#c\n+ mvn -Dtest=a.B#d -q\n[INFO] BUILD FAILURE\nx BUILD SUCCESS\n+ mvn -Dtest=z\n",
    "ant": "    [junit] [PASS] a.B.c\n [junit]  [FAIL] a.B.d\n[junit] [ERR] a.B.e f\n[junit] [SKIP] g\n[PASS] h\n",
    "phpunit": "✔ lost\nCalc (Tests\\Calc)\n ✔ Adds  \n ✘ Fails\n ↩ Skips\n ∅ None\nOther suite (x) (y)\n✔Tight\n",
    "karma": ("x\nStarting browser Chrome\n  Suite A\n    inner\n      ✔ adds\n      ✖ fails\n    ✔ outer\n  Suite B\n    ✔ b\n"
              "\n ✔ flat\n✔ none\nSUMMARY:\n✔ 9 tests completed\n  ✔ late\n"),
    "karma-shallow": "Starting browser\n    A\n  B\n C\n D\nE\n  F\n G\n",
    "calypso": ("+ yarn ./node_modules/.bin/jest --verbose\nPASS a/b.js\n  outer\n    inner\n      ✓ adds (3ms)\n      ✕ fails\n    ✓ more (20ms)\n"
                "  ● outer › fails\n      ✓ late\n+ ./node_modules/.bin/jest x\n  ✓ second\nTest Suites: 1\n   ✓ z\n"),
    "calypso-crash": "+ ./node_modules/.bin/jest x\n✓ unindented\n",
    "jest-files": "PASS src/a.test.js\nPASS src/b.test.js (1.23 s)\nFAIL src/c.test.js (45ms)\nPASS src/d.js (3s)\nFAIL  e\nPASS\nfoo.js\nFAIL src/b.test.js\n x PASS y\n",
    "eslint": "  1) rule no-x\n     valid\n     a;:\n     AssertionError: bad\n  2) second:\n  TypeError: x\n 3) no\n",
    "bpmn": ("\x1b[2KPhantomJS 2.1.1 (Linux 0.0.0) a b FAILED\n2KPhantomJS 2.1.1 (Linux x86_64) c FAILED\n"
             "Chrome Headless 99.0 (Linux x86_64) d FAILED\nHeadlessChrome 99.0 (Linux 0.0.0) e f FAILED\nHeadlessChrome 99.0 (Linux) g FAILED\n"),
    "openlayers": ("Chrome Headless 99.0.1 (Linux x86_64) ol/Map  does it FAILED\nChrome 9.9 (Linux 0.0) ol/View FAILED\n"
                   "  1) ol/source\n     has tiles:\n     AssertionError: x\ncase cases/a/main.js: mismatch 0.1\nmap/': ok\n"),
    "grommet": "FAIL src/a.js (1.2 s)\nPASS src/b.js (30 ms)\nPASS\nsrc/c.js\nFAIL src/d.js (x)\nPASS src/a.js\n",
    "highlight": ("  suite one\n    ✓ adds (20ms)\n    ✔ more\n    1) fails (3ms)\n  suite two\n    ✓ a ✓ b\n\n  2 passing (2s)\n  1 failing\n\n  1) suite one\n"),
    "next": ("a xvfb-run karma\nStarting browser Chrome\n  Button\n    size\n      ✓ small\n      ✗ large\n  LOG: x\n   \n    ✓ after blank\n"
             "AssertionError: #x\n  at y\n\nTOTAL: 3\n      ✓ late\nb xvfb-run karma\n  ✓ second\n"),
    "next-cypress": ("Running: a.js (1 of 2)\n\n\n  Button\n    ✓ renders (20ms)\n    1) fails\n    ✓ no time\n\nRunning: b.js (2 of 2)\n\n\n  Dialog\n    ✓ opens (1ms)\n"),
    "lighthouse": ("running 3 test files\n  cli\n    ✔ runs (12ms)\n    1) breaks\n    inner\n      ✔ deep\n\n  2 passing\n  ✔ late\nrunning 1 test files\n    ✔ x (3ms)\n"),
    "lighthouse-json": ('+ ./node_modules/.bin/mocha --reporter json\n{\n  "passes": [\n    {\n      "fullTitle": "a b",\n      "x": 1\n    }\n  ],\n'
                        '  "failures": [\n    {\n      "fullTitle": "c \\"d\\"",\n      "x": 1\n    }\n  ],\n}\n'),
    "prism": '+ ./node_modules/.bin/mocha tests/run.js --reporter json\n{"passes":[{"fullTitle":"a"}],"failures":[{"fullTitle":"b"}]}\n',
    "prism-crash": "+ ./node_modules/.bin/mocha tests/run.js --reporter json\nnpm ERR!\n",
    "prism-key": '+ ./node_modules/.bin/mocha tests/run.js --reporter json\n{"passes":[]}\n',
    "chart": "\x1b[31mChrome 99.0.0 (Linux 0.0.0) Chart draws FAILED\x1b[39m\nChrome 99.0 (Linux) x\tFAILED\nChrome 99.0 (Linux)  y FAILED z\n",
    "marked": "1) should do a\n 2) indented\n12) b  \n3)none\n",
    "p5": ("{\n1) json:\n}\n[\n2) list:\n]\n{ \"a\": 1 }\n<a><b>3) xml:</b></a>\n<a><a>x</a>4) half:</a></a>\n<c>open\n  1) p5.Vector\n       adds:\n     Error\n"
           "  2) flat\n same:\n  3) deep\n    er\n      est:\n</c>rest\n4) one:\n"),
    "quarto": ("[smoke] > render /tmp/abc1/x.qmd ... \x1b[32mok\x1b[39m (1s)\n[smoke] /tmp/doc.qmd ... \x1b[31mFAILED\x1b[39m\n[unit] plain ...\n"
               "[unit] /tmp/abc1/y ... \x1b[32mok\n[smoke] 3 passed 1 failed (2 steps)\n[smoke] \x1b[34mINFO x\ntest result: [unit] \x1b[32mok\nfailures:\n[unit] late ... \x1b[32mok\n"),
    "googletest": "[       OK ] A.B (0 ms)\n[  FAILED  ] A.C (1 ms)\n[  FAILED  ] A.C\n3: [ OK ] a b (x) (y)\n",
    "doctest-cut": "<doctest><TestCase name='a'>",
    "doctest-bad": "<doctest><TestCase name='a'></doctest>",
    "doctest-none": "<doctest><TestCase><SubCase/></TestCase></doctest>",
    "jest-odd": "  ✓ a (3 ms)\n✕ b (2 s)\n○ skipped c\n✓  d\n✓e\n✓ f (3 ms) (4 ms)\n",
    "vitest-odd": " ✓ a.ts > b 3ms\n × c 1m\n ↓ d [skipped]\n ✓ e 12\n❯ f\n",
    "jest-json": "[PASSED] a > b\n[FAILED] c\n[PENDING] d\n [PASSED]  e\n",
    "tap": "TAP version 13\nok 1 a\nnot ok 2 - b # TODO\n    ok 3 nested\nok 4\nok x y\n",
    "go-odd": "--- PASS: TestA (0.00s)\n    --- FAIL: TestA/b_(c) (1.2s)\n--- SKIP: TestD (x) (0s)\n--- BENCH: E (1s)\n",
    "ruby-unit": "  test: a: b:\t\t.: (0.1)\n  test_c:\tE\n  test_d: F\n  test_e: O: x\n  test_f: Pending\n  g: .5\n",
    "rspec": "a - b - passed\nc - failed (x)\nd - pending\n - passed\n",
}

ODD = ["\u00a0", "\x1c", "\x1f", "\u2003", "\t", "\x1b[32m", "\ufeff", "\u0085", "\x0c"]


def mutated(text, chance):
    """Returns the text with some lines changed, so that it looks like a truncated or interleaved log."""
    lines = text.split("\n")
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(lines))
        kind = chance.randrange(8)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(at, chance.choice(lines))
        elif kind == 2:
            lines[at] = lines[at][: chance.randint(0, len(lines[at]))]
        elif kind == 3:
            cut = chance.randint(0, len(lines[at]))
            lines[at] = lines[at][:cut] + chance.choice(ODD) + lines[at][cut:]
        elif kind == 4:
            lines[at] = chance.choice(ODD) + lines[at] + chance.choice(ODD)
        elif kind == 5:
            lines = lines[: max(1, at)]
        elif kind == 6:
            lines[at] = lines[at] + chance.choice(lines)
        else:
            other = chance.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        if not lines:
            lines = [""]
    return "\n".join(lines)


def all_logs():
    """Returns the name and text of each log, and whether it is the output of a real run."""
    base = [(path.stem, path.read_text(errors="replace"), True) for path in sorted(FOLDER.glob("*.txt"))]
    base += [(f"made-{name}", text, False) for name, text in MADE.items()]
    for name, text, real in base:
        yield name, text, real
        chance = random.Random(name)
        for number in range(MUTATIONS):
            yield f"{name}-{number}", mutated(text, chance), False
