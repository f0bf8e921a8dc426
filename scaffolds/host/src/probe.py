# Prints an interpreter's version, paths and installed packages as JSON. Proctor runs this script
# when it plans a run.
# plans a run.
import json
import os
import re
import sys
import sysconfig


def packages():
    try:
        from importlib import metadata
    except ImportError:
        return []
    # The sandbox does not contain the packages in the distribution's own directories.
    visible = [path for path in sys.path if path and "dist-packages" not in path.split(os.sep)]
    found = set()
    for one in metadata.distributions(path=visible):
        name = re.sub(r"[-_.]+", "-", one.metadata["Name"] or "?").lower()
        text = "%s==%s" % (name, one.version)
        try:
            origin = json.loads(one.read_text("direct_url.json") or "null")
        except ValueError:
            origin = None
        if origin and origin.get("dir_info", {}).get("editable"):
            text += " (editable)"
        elif origin and "vcs_info" in origin:
            text += " @ " + origin["vcs_info"].get("commit_id", "?")
        elif origin and "archive_info" in origin:
            hashes = origin["archive_info"].get("hashes") or {}
            text += " @ " + (hashes.get("sha256") or origin["archive_info"].get("hash") or "?")
        found.add(text)
    return sorted(found)


print(json.dumps({
    "executable": os.path.abspath(sys.executable),
    "implementation": sys.implementation.name,
    "version": list(sys.version_info[:3]),
    "prefix": os.path.abspath(sys.prefix),
    "base_prefix": os.path.abspath(sys.base_prefix),
    "site": sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}),
    "packages": packages(),
}))
