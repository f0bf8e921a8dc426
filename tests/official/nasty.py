"""Hand-written logs: output that no test runner prints, and output from code that cheats."""

START = "+ : '>>>>> Start Test Output'\n"
END = "+ : '>>>>> End Test Output'\n"
PYTEST = "+ pytest -rA test_a.py\n"


def closed(body, status=None):
    code = "" if status is None else f">>>>> Test Exit Code: {status}\n"
    return "Applied patch test_a.py cleanly.\n" + START + PYTEST + body + END + code


GOOD = "PASSED test_a.py::test_one\nPASSED test_a.py::test_two\nFAILED test_a.py::test_three - boom\n"

LOGS = {
    # Complete logs that test markers, statuses and exit codes.
    "forged-with-bogus-failure": closed("PASSED test_a.py::test_one\nFAILED bogus\n", 1),
    "forged-without-failure": closed("PASSED test_a.py::test_one\nPASSED test_a.py::test_two\n", 1),
    "forged-exit-code": closed(">>>>> Test Exit Code: 0\n" + GOOD, 1),
    "forged-then-exit-0": closed("PASSED test_a.py::test_one\nPASSED test_a.py::test_two\n", 0),
    "forged-end-marker": closed(
        "PASSED test_a.py::test_one\n>>>>> End Test Output\nFAILED test_a.py::test_one - x\n", 1),
    "forged-start-marker": closed(
        "FAILED test_a.py::test_one - x\n>>>>> Start Test Output\nPASSED test_a.py::test_one\n", 1),
    "nothing-parsed-but-executed": closed("Executed 5 of 10\n", 1),
    "nothing-parsed": closed("garbage\n", 0),
    "nothing-executed": closed("Executed 0 of 0\n", 1),
    "karma-total": closed("TOTAL: 3 SUCCESS\n", 0),
    "jest-suites": closed("Test Suites: 1 failed, 12 total\n", 1),
    "tap-count": closed("# tests 4\n", 0),
    "jasmine": closed("12 specs, 0 failures\n", 0),
    "openlayers": closed("case 'x': ok\n", 0),
    "flaky-rerun": closed("FAILED test_a.py::test_one - x\nPASSED test_a.py::test_one\n", 1),
    "flaky-rerun-0": closed("FAILED test_a.py::test_one - x\nPASSED test_a.py::test_one\n", 0),
    "says-timed-out": closed(GOOD + "log: >>>>> Tests Timed Out\n", 0),
    "says-errored": closed(GOOD + ">>>>> Tests Errored\n", 0),
    "says-reset-failed": ">>>>> Reset Failed\n" + closed(GOOD, 0),
    "says-apply-failed": ">>>>> Patch Apply Failed\n" + closed(GOOD, 0),
    "says-environment": "Failed to reset task environment\n" + closed(GOOD, 0),
    "skipped-then-passed": closed("SKIPPED test_a.py::test_one\nPASSED test_a.py::test_one\n", 0),
    "passed-then-skipped": closed("PASSED test_a.py::test_one\nSKIPPED test_a.py::test_one\n", 0),
    "all-skipped": closed("SKIPPED test_a.py::test_one\nSKIPPED test_a.py::test_two\n", 0),
    "no-markers": PYTEST + GOOD,
    "only-start": START + PYTEST + GOOD,
    "only-end": PYTEST + GOOD + END,
    "end-before-start": END + PYTEST + GOOD + START,
    "two-starts": START + START + PYTEST + GOOD + END,
    "untraced-markers": ">>>>> Start Test Output\n" + PYTEST + GOOD + ">>>>> End Test Output\n",
    "results-outside": GOOD + START + PYTEST + END + ">>>>> Test Exit Code: 1\n",
    "empty": "",
    "only-newlines": "\n\n\r\n",
    "negative-exit": closed(GOOD, -9),
    "exit-without-number": closed(GOOD) + ">>>>> Test Exit Code: none\n",
    "exit-on-next-line": closed("PASSED test_a.py::test_one\n") + ">>>>> Test Exit Code:\n  3\n",
    "exit-huge": closed("PASSED test_a.py::test_one\n", 10**30),
    "exit-minus-zero": closed("PASSED test_a.py::test_one\n", "-0"),
    "command-mentioned-again": closed(GOOD + "E   ran: pytest -rA\nPASSED test_a.py::test_last\n", 1),
    "fea-command": "Applied patch x cleanly.\n" + START
    + "+ pytest --no-header -rA --tb=no -p no:cacheprovider test_a.py\n" + GOOD + END,
    "fea-command-mentioned": START + "+ pytest --no-header -rA --tb=no -p no:cacheprovider a.py\n" + GOOD
    + "pytest --no-header -rA --tb=no -p no:cacheprovider\nPASSED test_a.py::test_three\n" + END,
    "applied-pred": ">>>>> Applied Patch (pred)\nFAILED test_a.py::old - x\n>>>>> Applied Patch (pred)\n" + GOOD,
    "cr-lines": closed(GOOD.replace("\n", "\r\n"), 1),
    "cr-only": closed(GOOD.replace("\n", "\r"), 1),
    # Lines that the parsers read in different ways.
    "colon-statuses": closed("ERROR: not found: x\nERROR:root:said\nPASSED: yes\nFAILED: no - x\n", 1),
    "glued-statuses": closed("PASSEDx test_a.py::t\nFAILEDx test_a.py::u\nXFAILx test_a.py::v\n", 1),
    "bare-statuses": closed("PASSED test_a.py::t\nFAILED\nPASSED\nERROR\nSKIPPED\nXFAIL\n", 1),
    "bare-failed-first": closed("FAILED\nPASSED test_a.py::t\n", 1),
    "surrounded-passed": closed(" PASSED \nPASSED test_a.py::t\n", 0),
    "statuses-last": closed("test_a.py::t PASSED\ntest_a.py::u FAILED\na b c PASSED\n x SKIPPED\n", 1),
    "status-last-glued": closed("test_a.py::t xPASSED\nonlyPASSED\n", 0),
    "spaces-in-ids": closed("PASSED test_a.py::t[a b]\nFAILED test_a.py::u[c - d] - x - y\nERROR test_a.py::v[e f] - z\n", 1),
    "xpass": closed("XPASS test_a.py::t - why\nXFAIL test_a.py::u - why\n", 0),
    "skip-summaries": closed("SKIPPED [1] test_a.py:3: x\nSKIPPED [12] test_a.py: y\nSKIPPED [] z\nSKIPPED [x] y\nSKIPPED [1]\n", 0),
    "percents": closed("PASSED [100%]\nPASSED [ 50%]\ntest_a.py::t PASSED [ 10%]\ntest_a.py::u FAILED\t[ 20%]\n", 0),
    "colours": closed("\x1b[32mPASSED\x1b[0m test_a.py::\x1b[1mt\x1b[0m\n\x1b[1;31mFAILED\x1b[0m test_a.py::u - x\n[31mPASSED[0m test_a.py::v\n", 1),
    "separators": closed("PASSED\x1ctest_a.py::t\nPASSED\x85test_a.py::u\nPASSED\u2003test_a.py::v\nPASSED\u200btest_a.py::w\nPASSED \ttest_a.py::x\n", 0),
    "options": closed("PASSED test_a.py::t[/usr/lib/x.py]\nPASSED test_a.py::u[//double]\nPASSED test_a.py::v[/a*/b]\nPASSED test_a.py::w[x]y]z\nPASSED test_a.py::x[]\nPASSED test_a.py::y[/]\nPASSED test_a.py::z]q[\nFAILED test_a.py::a[[/b/c]] - d\n", 1),
    "mouse": closed("PASSED test_a.py::t[MouseButton.LEFT-1]\nFAILED test_a.py::u[MouseButton.RIGHT] - x\nPASSED test_a.py::t[1-1]\n", 1),
    "truncated": closed("PASSED test_a.py::t[log(photon, 1)]\nPASSED test_a.py::t[log(photon, 2)]\nFAILED test_a.py::u[a, 1] - x\nPASSED test_a.py::u[a, 2]\nXFAIL test_a.py::v[b]\nPASSED test_a.py::v[bc]\nSKIPPED test_a.py::w[d, 1]\nFAILED test_a.py::w[d, 2]\n", 1),
    "seaborn": closed("test_a.py::t PASSED [ 10%]\ntest_a.py::u FAILED [ 20%]\nx y PASSED z\nPASSED test_a.py::v\nFAILED test_a.py::w - x\n", 1),
    "seaborn-bare": closed("FAILED \nPASSED test_a.py::v\n", 1),
    "many-same": closed("".join(f"{s} test_a.py::same\n" for s in ["PASSED", "FAILED", "XFAIL", "SKIPPED", "ERROR", "PASSED"]), 0),
    # Django.
    "django": closed(
        "test_a (m.C) ... ok\ntest_b (m.C) ... OK\ntest_c (m.C) ...  OK\ntest_d (m.C) ... skipped 'x ... ok'\n"
        "test_e (m.C) ... FAIL\ntest_f (m.C) ... ERROR\ntest_g (m.C) ... expected failure\n"
        "  test_h (m.C) ... ok  \ntest_i (m.C) ... noise\nok\ntest_j (m.C) ... unexpected success\n"
        "okay then\nFAIL: test_k (m.C)\nERROR: test_l (m.C) [sub ... ok]\n"
        "--version is equivalent to version ... FAIL\n"
        "Applying sites.0002_alter_domain_unique...test_no_migrations (m.C) ... ok\n"
        "a ... b ... ok\na ... b ... FAIL\n", 1),
    "django-torn": closed(
        "test_a (m.C) ... Testing against Django installed in '/x' with up to 2 processes\nmore (0 silenced).\nok\n"
        "test_b (m.C) ... Internal Server Error: /view/\nok\n"
        "test_c (m.C) ... System check identified no issues (0 silenced)\nok\n"
        "test_d (m.C)\n... System check identified no issues (0 silenced)\nok\n"
        "test_e (m.C) ... Testing against Django installed in '/y' silenced).\nok\n", 0),
    "django-bare-fail": closed("test_a (m.C) ... ok\nFAIL:\n", 1),
    "django-bare-error": closed("ERROR: \ntest_a (m.C) ... ok\n", 1),
    # sympy.
    "sympy": closed(
        "test_a ok\ntest_b F\ntest_c E\ntest_d f\n test_e ok \ntest_f  x ok\ntest_ok\n"
        "________ sympy/core/tests/test_x.py:test_b ________\n x.py:y z\n a b.py:c d e.py:f g\n_ .py: _\n", 1),
    # SWE-smith.
    "smith": closed("test_a.py::t PASSED [ 1%]\ntest_a.py::u  FAILED\n test_a.py::v PASSED\ntest_a.py::w\tERRORx\nx XFAIL\n\u3000y PASSED\nPASSED SKIPPED\n", 1),
    # FeatureBench: where the summary starts and ends, and how names are cut off.
    "fb-inner-summary": "=== short test summary info ===\nPASSED inner::a\n=== 1 passed in 0.01s ===\n"
    "=========================== short test summary info ============================\nFAILED outer::b - x\n=== 1 failed in 1s ===\n",
    "fb-spoofed": "note: Short Test Summary Info follows\nPASSED forged::a\nPASSED forged::b\n===\n"
    "=== short test summary info ===\nFAILED real::a - x\n",
    "fb-dashes": "short test summary info\nPASSED a.py::t[a - b]\nPASSED a.py::t[a - c]\nFAILED a.py::u[x  -  y] - m - n\nERROR a.py - ImportError: x\nXFAIL a.py::v - why - so\nXPASS a.py::w - odd\n",
    "fb-skips": "short test summary info\nSKIPPED [1] a.py:3: why\nSKIPPED [2] a.py: whole: x\nSKIPPED [3] a b.py:7: y\nSKIPPED a.py::t\nSKIPPED [1] a.py:3\nSKIPPED [1] C:\\x.py:9: z\n",
    "fb-subfailed": "short test summary info\nSUBFAILED a.py::t - x\nSUBFAILED(<subtest>) a.py::t - y\nSUBFAILED[part] a.py::t - z\nSUBFAILED(number=1) a.py::u - z\nSUBFAILEDa.py::v\nFAILED a.py::t - w\nSUBFAILED\n",
    "fb-indented": "short test summary info\n   PASSED a.py::t   \n\tFAILED a.py::u\t-\tx\nPASSED\ta.py::v\nPASSED  -  x\nPASSED   \n",
    "fb-verbose": "============================= test session starts ==============================\na.py::t PASSED [ 10%]\na.py::u[x FAILED y] PASSED [ 20%]\na.py::v FAILED\t[ 30%]\na.py::w ERROR\nno_colons PASSED [1%]\na.py::x SKIPPED (why PASSED it) [ 40%]\na.py::y XFAIL (z) [1%]\na.py::z XPASS (z) [1%]\nPASSED a.py::q PASSED z\n=== FAILURES ===\na.py::late PASSED [ 50%]\n",
    "fb-thirds": "short test summary info\n" + "".join(f"PASSED a.py::p{n}\n" for n in range(1)) + "".join(f"FAILED a.py::f{n}\n" for n in range(31)),
    "fb-64ths": "short test summary info\n" + "".join(f"PASSED a.py::p{n}\n" for n in range(3)) + "".join(f"FAILED a.py::f{n}\n" for n in range(29)),
    "fb-all-skipped": "short test summary info\nSKIPPED [40] a.py:3: why\n=== 40 skipped ===\n",
}

BYTES = {
    "not-utf8": closed(GOOD, 1).encode() + b"\xff\xfe PASSED \xc3\x28 x\nPASSED a.py::\xe9\xe9\n",
    "null-bytes": closed("PASSED a.py::t\x00u\nFAILED a.py::\x00 - x\n", 1).encode(),
}
