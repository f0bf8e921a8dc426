# Prints which names a Python file binds at its top level, as JSON. Proctor runs this script when it
# plans a run. The script parses the agent's file but never runs it.
import ast
import json
import symtable
import sys


def main(path, name):
    with open(path, "rb") as file:
        source = file.read()
    try:
        tree = ast.parse(source, path)
        top = symtable.symtable(source, path, "exec")
    except SyntaxError as error:
        return {"error": "line %s: %s" % (error.lineno or 1, error.msg)}
    except (ValueError, UnicodeError) as error:
        return {"error": str(error)}
    except (RecursionError, MemoryError):
        # Python itself may still be able to import the file.
        return {"bound": True}
    bound = {one.get_name() for one in top.get_symbols() if one.is_assigned() or one.is_imported()}
    functions = []
    is_dynamic = "__getattr__" in bound
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            bound.update(node.names)
        elif isinstance(node, ast.ImportFrom):
            is_dynamic = is_dynamic or any(one.name == "*" for one in node.names)
        elif isinstance(node, ast.Attribute):
            is_dynamic = is_dynamic or node.attr == "__dict__"
        elif isinstance(node, ast.Name):
            # Code that uses these functions can bind names that are not visible here.
            is_dynamic = is_dynamic or node.id in ("exec", "globals", "locals", "setattr", "vars")
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            functions.append(node.name)
    return {"bound": is_dynamic or name in bound, "functions": functions}


print(json.dumps(main(*sys.argv[1:])))
