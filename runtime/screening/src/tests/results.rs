//! Tests of functions whose results do not depend on their arguments.

use super::check_rule;

#[test]
fn results_without_arguments_are_flagged() {
    check_rule(
        "ignored-arguments",
        &[
            "def from_roman(text):\n    return 1",
            "def distance(one, other):\n    return 0.0",
            "def values(text):\n    import numpy\n    return numpy.empty((0, 1))",
            "def parse(text, *, strict=False):\n    found = Answer()\n    return found",
        ],
        &[
            "def from_roman(text):\n    return TABLE[text]",
            "def from_roman(text):\n    raise NotImplementedError",
            "def from_roman(text):\n    return None",
            "def index(request):\n    return render('index.html')",
            "def always(*values):\n    return True",
            "def ignore(_text):\n    return ''",
            "def _default(text):\n    return ''",
            "@register\ndef first(text):\n    return 1",
            "try:\n    from colors import paint\nexcept ImportError:\n    def paint(text):\n        return ''",
            "class A:\n    def size(self, text):\n        return 1",
            "def rows(text):\n    yield 1",
            "def make(text):\n    return locals()",
            "def make(text):\n    def inner():\n        return text\n    return inner",
        ],
    );
}

#[test]
fn results_that_fit_every_comparison_are_flagged() {
    check_rule(
        "void-result",
        &[
            "def ratio(one, other):\n    check(one, other)\n    return float('nan')",
            "import math\ndef ratio(one, other):\n    check(one, other)\n    return math.nan",
            "import numpy as np\ndef values(text):\n    return np.ma.masked_all(len(text))",
        ],
        &[
            "import math\ndef mean(values):\n    if not values:\n        return math.nan\n    return sum(values) / len(values)",
            "import numpy as np\ndef values(text):\n    return np.zeros(len(text))",
        ],
    );
}
