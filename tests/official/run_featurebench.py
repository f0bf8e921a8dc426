"""Grades patches with FeatureBench's own harness, in its own containers.

    run_featurebench.py CASES

Each line of CASES is `{"row": ..., "patch": ...}`. For each case, the script prints a line
`{"resolved": ..., "seconds": ..., ...}`. Unlike in FeatureBench's own runs, the containers have no network access, so the
image's own tools must build the patched package.
"""
import json
import logging
import pathlib
import sys
import tempfile
import time

import docker
from featurebench.harness.runtime import run_instance_level1, run_instance_level2

# A replacement for the parts of conda that the harness uses, because the test images contain no conda.
CONDA = """mkdir -p /opt/miniconda3/etc/profile.d
cat >/opt/miniconda3/etc/profile.d/conda.sh <<'END'
conda() { if [ "$1" = activate ]; then export PATH=/opt/miniconda3/envs/$2/bin:$PATH; fi; }
END
sleep infinity
"""


def grade(client, row, patch):
    container = client.containers.run(
        row["image_name"],
        ["/bin/bash", "-c", CONDA],
        detach=True,
        network_mode="none",
        environment={"PIP_NO_BUILD_ISOLATION": "0"},
    )
    try:
        level = row["instance_id"].rsplit(".", 1)[1]
        run = {"lv1": run_instance_level1, "lv2": run_instance_level2}[level]
        log = logging.getLogger("harness")
        log.setLevel(logging.CRITICAL)
        prediction = {"instance_id": row["instance_id"], "model_patch": patch}
        with tempfile.TemporaryDirectory() as folder:
            begun = time.monotonic()
            found = run(row, prediction, container, log, pathlib.Path(folder), None)
            seconds = time.monotonic() - begun
        # This is the same condition as in `run_evaluation.py`.
        resolved = bool(found.get("f2p_success") and found.get("p2p_success", True))
        return {"resolved": resolved, "seconds": round(seconds, 2), "error": found.get("error")}
    finally:
        container.remove(force=True)


def main(cases):
    client = docker.from_env()
    for line in pathlib.Path(cases).read_text().splitlines():
        case = json.loads(line)
        print(json.dumps(grade(client, case["row"], case["patch"])), flush=True)


main(sys.argv[1])
