"""Prints the types of a Kubernetes Job as JSON, from the sources of the crate k8s-openapi.

usage: types.py FOLDER_OF_THE_CRATE VERSION   (such as v1_33)
"""

import json
import re
import sys
from pathlib import Path

root, version = Path(sys.argv[1]), sys.argv[2]
base = root / "src" / version
SIMPLE = {"std::string::String": "string", "bool": "boolean", "i32": "integer", "i64": "integer", "f64": "number"}


# The source code of each type, by its Rust path.
defined = {}
for path in base.rglob("*.rs"):
    text = path.read_text()
    rust = re.search(r"^pub (?:struct|enum) (\w+)", text, re.M)
    if text.startswith("// Generated from definition") and rust:
        defined["::".join(["crate", *path.relative_to(base).parts[:-1], rust[1]])] = text


def fields(text):
    body = re.search(r"^pub struct \w+ \{\n(.*?)^\}", text, re.M | re.S)
    if not body:
        return None
    members = re.findall(r"^    pub (?:r#)?(\w+): (.+),$", body[1], re.M)
    keys = {rust: key for key, rust in re.findall(r'"([^"]+)" => Field::Key_(\w+),', text)}
    return {keys[name]: kind for name, kind in members}


def is_required(rust):
    # The crate makes the optional object metadata a non-optional field.
    return not re.match(r"Option<|std::vec::Vec<|std::collections::", rust) and not rust.endswith("::ObjectMeta")


def kind_of(rust, todo):
    optional = re.fullmatch(r"Option<(.+)>", rust)
    if optional:
        return kind_of(optional[1], todo)
    if rust in SIMPLE:
        return SIMPLE[rust]
    many = re.fullmatch(r"std::vec::Vec<(.+)>", rust)
    if many:
        return [kind_of(many[1], todo)]
    named = re.fullmatch(r"std::collections::BTreeMap<std::string::String, (.+)>", rust)
    if named:
        return {"*": kind_of(named[1], todo)}
    name = rust.rsplit("::", 1)[-1]
    if name == "Quantity":
        return "quantity"
    if name == "IntOrString":
        return "integer or string"
    if name in ("Time", "MicroTime", "ByteString"):
        return "string"
    todo.append(rust)
    return rust.removeprefix("crate::").replace("::", ".")


out, todo = {}, ["crate::api::batch::v1::Job"]
while todo:
    rust = todo.pop()
    name = rust.removeprefix("crate::").replace("::", ".")
    if name in out:
        continue
    text = defined[rust]
    found = fields(text)
    if found is None:
        # A type without named fields.
        out[name] = "any"
        continue
    kinds = {key: kind_of(kind, todo) for key, kind in found.items()}
    if "Key_api_version" in text:
        kinds |= {"apiVersion": "string", "kind": "string"}
    required = sorted(key for key, kind in found.items() if is_required(kind))
    out[name] = {"fields": dict(sorted(kinds.items())), "required": required}

lines = [f"{json.dumps(name)}: {json.dumps(kind)}" for name, kind in sorted(out.items())]
print("{\n" + ",\n".join(lines) + "\n}")
