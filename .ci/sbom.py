"""Prints a CycloneDX 1.5 SBOM of the `proctor` binary, from `cargo metadata`."""

import json
import subprocess
import sys

TARGET = sys.argv[1] if len(sys.argv) > 1 else "x86_64-unknown-linux-gnu"


def main() -> None:
    arguments = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", TARGET]
    metadata = json.loads(subprocess.run(arguments, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = next(package for package in packages.values() if package["name"] == "proctor")
    # The binary embeds the sandbox agent, but cargo does not list the agent as a dependency.
    agent = next(package for package in packages.values() if package["name"] == "proctor-agentd")
    nodes[root["id"]]["deps"].append({"pkg": agent["id"], "dep_kinds": [{"kind": None}]})
    used, waiting = set(), [root["id"]]
    while waiting:
        current = waiting.pop()
        if current in used:
            continue
        used.add(current)
        for dependency in nodes[current]["deps"]:
            # Skip dev dependencies, because the binary does not contain them.
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])

    def component(package):
        purl = f"pkg:cargo/{package['name']}@{package['version']}"
        found = {"type": "library", "name": package["name"], "version": package["version"], "bom-ref": purl}
        if package.get("source"):
            found["purl"] = purl
        if package.get("license"):
            found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        return found

    references = {key: f"pkg:cargo/{packages[key]['name']}@{packages[key]['version']}" for key in used}
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**component(root), "type": "application"}},
        "components": sorted(
            (component(packages[key]) for key in used if key != root["id"]), key=lambda one: one["bom-ref"]
        ),
        "dependencies": sorted(
            (
                {
                    "ref": references[key],
                    "dependsOn": sorted(
                        {references[one["pkg"]] for one in nodes[key]["deps"] if one["pkg"] in used}
                    ),
                }
                for key in used
            ),
            key=lambda one: one["ref"],
        ),
    }
    print(json.dumps(bom, indent=1))


main()
