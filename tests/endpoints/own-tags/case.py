"""chat/tools, honest: the model itself writes markup of calls into its files (`</arg_value>`, `<parameter=x>`), streamed or not, makes a syntax error once, and submits a from_roman that accepts `IIII`: scored."""
from mock import *
WRONG = SOLVE.replace(' or to_roman(total) != text', '').replace('    total, rest', '    """Read a numeral; unlike `<arg_value>X</arg_value>` or `<parameter=x>`, it has no markup."""\n    total, rest')
CMDS = ['ls; cat numerals/roman.py', 'grep -n "</arg_value>" numerals/*.py; if true; then echo "no </parameter> here"', WRONG, TEST]
class C(Case):
    def answer(self, conv, k, body):
        n = steps(body)
        name, args = ('submit', {}) if n >= 4 else ('shell', sh(CMDS[n]))
        return call(body, name, args, use(n_of(body), n_of(args) + 10))
