"""Downloads the official graders, three pytest versions, and two libraries with their tests.

    fetch.py FOLDER

Exits with 77 if the package index is unreachable.
"""
import pathlib
import subprocess
import sys
import tarfile
import venv
import zipfile
from concurrent.futures import ThreadPoolExecutor

GRADERS = [
    "swebench==5.0.2", "swebench==4.1.0", "swebench==3.0.4", "swebench==2.1.0",
    "featurebench==0.2.3", "swesmith==0.0.9",
]
PYTESTS = {
    "pytest9": ["pytest==9.0.2"],
    "pytest8": ["pytest==8.4.2", "pytest-xdist==3.8.0", "pytest-subtests==0.14.2",
                "pytest-rerunfailures==16.0.1", "pytest-timeout==2.4.0"],
    "pytest6": ["pytest==6.2.5"],
}
LIBRARIES = ["boltons==25.0.0", "tomlkit==0.13.2"]


def main(folder):
    venv.create(folder / "venv", with_pip=True)

    def pip(*words):
        command = [folder / "venv/bin/python", "-m", "pip", "-q", "--disable-pip-version-check", *words]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            said = done.stdout + done.stderr
            print(said, file=sys.stderr)
            unreachable = ("Could not find a version" in said and "(from versions: none)" in said)
            sys.exit(77 if unreachable or "Max retries" in said or "NewConnection" in said else 1)

    def fetch_grader(grader):
        pip("download", "--no-deps", "--ignore-requires-python", "-d", folder / "wheels", grader)
        name = grader.replace("==", "-")
        wheel = next((folder / "wheels").glob(f"{name}-*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "graders" / name)

    def fetch_library(library):
        pip("download", "--no-deps", "--no-binary", ":all:", "-d", folder / "sdists", library)

    # Each pip mostly waits for the package index.
    with ThreadPoolExecutor(4) as pool:
        fetched = [pool.submit(fetch_grader, grader) for grader in GRADERS]
        fetched += [pool.submit(pip, "install", "--target", folder / name, *packages) for name, packages in PYTESTS.items()]
        fetched += [pool.submit(fetch_library, library) for library in LIBRARIES]
        for future in fetched:
            future.result()
    for sdist in (folder / "sdists").glob("*.tar.gz"):
        with tarfile.open(sdist) as archive:
            # Older patch releases of Python do not support extraction filters.
            safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            archive.extractall(folder / "libraries", **safe)


main(pathlib.Path(sys.argv[1]))
