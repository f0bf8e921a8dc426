"""Finds what the compiled code of a module or class defines."""

import dis
import types

# Instructions without an effect.
IDLE = frozenset(("CACHE", "EXTENDED_ARG", "NOP", "RESUME"))
EXTENDED_ARG, OPERATIONS = dis.EXTENDED_ARG, tuple(dis.opname)
# Instructions that create a function.
MAKES_FUNCTION = ("MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE")


def inner(code):
    """Returns a code object and all code objects inside it."""
    pending, found = [code], []
    while pending:
        code = pending.pop()
        if isinstance(code, types.CodeType):
            found.append(code)
            pending.extend(code.co_consts)
    return found


def instructions(code):
    """Returns the name and argument of each instruction that has an effect. `dis` also computes lines, jumps
    and argument values, which takes twenty times as long and would make up a quarter of a grading."""
    found, extended, raw = [], 0, code.co_code
    for operation, argument in zip(raw[::2], raw[1::2]):
        if operation == EXTENDED_ARG:
            extended = (extended | argument) << 8
            continue
        name = OPERATIONS[operation]
        if name not in IDLE:
            found.append((name, extended | argument))
        extended = 0
    return found


def defined(code, kind):
    """Returns the name and code of each function or class that the code of a module or class defines exactly once
    and without a decorator."""
    stores, found, lines = {}, {}, instructions(code)
    for at, (operation, argument) in enumerate(lines):
        if operation not in ("STORE_NAME", "STORE_GLOBAL"):
            continue
        stored = code.co_names[argument]
        stores[stored] = stores.get(stored, 0) + 1
        before = lines[max(0, at - 12) : at]
        if kind == "def" and before and before[-1][0] in MAKES_FUNCTION:
            made = [code.co_consts[argument] for operation, argument in before if operation == "LOAD_CONST"]
            made = [one for one in made if isinstance(one, types.CodeType)]
            if made and made[-1].co_name == stored:
                found[stored] = made[-1]
        if kind == "class" and before and before[-1][0].startswith(("CALL", "PRECALL")):
            made = [one for one in code.co_consts if isinstance(one, types.CodeType) and one.co_name == stored]
            if len(made) == 1:
                found[stored] = made[0]
    return {name: made for name, made in found.items() if stores[name] == 1}


def introduced(code):
    """Returns the names that a module's code sets exactly once, either by a definition (with or without a
    decorator) or by an import under the same name. For an import, the value is the name of the other module."""
    made = {one.co_name for one in code.co_consts if isinstance(one, types.CodeType)}
    found, stores, module, given = {}, {}, None, None
    for operation, argument in instructions(code):
        if operation == "IMPORT_NAME":
            module = code.co_names[argument]
        if operation in ("STORE_NAME", "STORE_GLOBAL"):
            stored = code.co_names[argument]
            stores[stored] = stores.get(stored, 0) + 1
            if stored in made:
                found[stored] = None
            elif given == stored:
                found[stored] = module
        given = code.co_names[argument] if operation == "IMPORT_FROM" else None
    return {name: module for name, module in found.items() if stores[name] == 1}
