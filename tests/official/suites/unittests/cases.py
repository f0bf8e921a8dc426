"""Cases for unittest's own runner, whose output resembles that of Django's runner."""
import sys
import unittest


class Case(unittest.TestCase):
    def test_passes(self):
        pass

    def test_documented(self):
        """A sentence in the place of a name."""

    def test_documented_fails(self):
        """A sentence ... with dots."""
        self.fail("no")

    def test_errors(self):
        raise RuntimeError("ok")

    @unittest.skip("a reason ... ok")
    def test_skipped(self):
        pass

    @unittest.expectedFailure
    def test_expected(self):
        self.fail()

    @unittest.expectedFailure
    def test_unexpected(self):
        pass

    def test_parts(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertNotEqual(number, 1)

    def test_prints_between(self):
        sys.stderr.write("Testing against Django installed in '/x' with 2 processes\n")
        sys.stderr.write("System check identified no issues (0 silenced).\n")

    def test_prints_error(self):
        sys.stderr.write("Internal Server Error: /view/\n")

    def test_prints_check(self):
        sys.stderr.write("System check identified no issues (0 silenced)\n")

    def test_prints_ok(self):
        sys.stderr.write("\nok then\n--version is equivalent to version\n")


class Broken(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise RuntimeError("class set-up")

    def test_never(self):
        pass


if __name__ == "__main__":
    unittest.main()
