"""Prints output like that of sympy's `bin/test -C --verbose` for a few made-up tests."""
import sys

FILES = {
    "sympy/core/tests/test_basic.py": {"test_structure": "ok", "test_equality": "F", "test_xfail": "f"},
    "sympy/core/tests/test_expr.py": {"test_structure": "E", "test_skip": "s", "test_ok": "ok"},
}

seed = sys.argv[1:] or ["random"]
print("============================= test process starts ==============================")
print("executable:         /usr/bin/python3  (3.11.2-final-0) [CPython]")
print(f"random seed:        {seed[0]}\n")
for file, tests in FILES.items():
    print(f"{file}[{len(tests)}] ")
    for name, mark in tests.items():
        print(f"{name} {mark}")
    print(f"{'':60}[FAIL]" if "F" in tests.values() else f"{'':60}[OK]")
print("\n________________________________________________________________________________")
print("________________ sympy/core/tests/test_expr.py:test_structure __________________")
print("Traceback (most recent call last):\nValueError: x")
print("________________________________________________________________________________")
print("______________ sympy/core/tests/test_basic.py:test_equality ______________")
print("AssertionError\n")
print("=== tests finished: 2 passed, 1 failed, 1 skipped, 1 expected to fail, 1 exceptions, ===")
print("=========================== in 0.10 seconds ===========================")
print("DO *NOT* COMMIT!")
sys.exit(1)
