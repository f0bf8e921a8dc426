"""Plants the unmasked code, or the hidden test, in a different hiding place for each line of PLACES.

Run by the set-up of the environment, in the work directory, before anything is masked.
"""
import bz2, gzip, hashlib, io, json, lzma, os, py_compile, shutil, subprocess, sys, tarfile, zipfile, zlib

GOLD = open("numerals/roman.py").read()
TEST = open("tests/test_roman.py").read()


def put(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(content if isinstance(content, bytes) else content.encode())


def tar(mode, name="numerals-1.0/numerals/renamed.py"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        info = tarfile.TarInfo(name)
        info.size = len(GOLD.encode())
        archive.addfile(info, io.BytesIO(GOLD.encode()))
    return out.getvalue()


def zipped(name, content):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return out.getvalue()


def exact(path):
    put(path, GOLD)


def reindented(path):
    put(path, GOLD.replace("    ", "\t").replace('"', "'").replace("\n", "  \n\n"))


def patch(path):
    put(path, "".join("-" + line for line in GOLD.splitlines(True)))


def wheel(path):
    put(path, zipped("other/name.py", GOLD))


def sdist_without_a_name(path):
    put(path, tar("w:gz"))


def conda_package(path):
    put(path, bz2.compress(tar("w")))


def nested(path):
    put(path, zipped("inner.zip", zipped("pkg.tar.xz", lzma.compress(tar("w")))))


def other_version_importable(path):
    put(path, "VERSION = 'from a year ago: nothing here is like the code that is hidden'\n")


def bytecode(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    py_compile.compile("numerals/roman.py", cfile=path, doraise=True)


def loose_object(path):
    blob = b"blob %d\0" % len(GOLD) + GOLD.encode()
    name = hashlib.sha1(blob).hexdigest()
    put(f"{path}/objects/{name[:2]}/{name[2:]}", zlib.compress(blob))


def packed_by_git(path):
    """The commit with the code is only in the reflog, and its blob is a delta in a pack."""
    env = dict(os.environ, HOME="/tmp", GIT_CONFIG_NOSYSTEM="1")
    def git(*words):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", path, *words],
            check=True, env=env, stdout=subprocess.DEVNULL)
    os.makedirs(path)
    git("init", "-q")
    filler = "".join(f"# line {n} of a long file that stays as it is\n" for n in range(400))
    put(f"{path}/module.py", filler + GOLD)
    git("add", "."), git("commit", "-q", "-m", "with")
    put(f"{path}/module.py", filler * 2)
    git("add", "."), git("commit", "-q", "--amend", "-m", "without")
    git("gc", "-q")
    assert not [name for name in os.listdir(f"{path}/.git/objects") if len(name) == 2]


def swap_file(path):
    """As an editor writes it: pages of lines, the last line first, each ended by a NUL."""
    page = b"\0".join(line.encode() for line in reversed(GOLD.splitlines()))
    put(path, b"b0VIM 9.0\0\0\0" + b"\0" * 4000 + page + b"\0")


def editor_history(path):
    put(path, json.dumps({"version": 1, "content": GOLD}))


def hidden_test(path):
    put(path, TEST)


with open("places.txt") as places:
    for line in places:
        kind, path = line.split()
        globals()[kind](path)
