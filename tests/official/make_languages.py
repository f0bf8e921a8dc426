"""Regenerates the logs in languages/ by running the suites in runners/ with real test runners.

    make_languages.py NODE_MODULES

Run this script by hand to add a runner or options; CI uses the committed logs. It needs Debian's
golang-go, ruby-rspec, ruby-minitest, ruby-test-unit, phpunit, perl, g++, doctest-dev, libgtest-dev, maven with
libsurefire-java, libmaven-compiler-plugin-java, libmaven-resources-plugin-java and junit4, and ant-optional, and a folder
with `npm install jest@29 vitest@2 mocha@10`. If a log's command isn't installed, the log stays unchanged.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
GTEST = "/usr/src/googletest/googletest"
MAVEN = "mvn -B -o -s settings.xml test"
JEST = "jest a.test.js"

# Folder, log name, and shell command.
RUNS = [
    *(("go", f"go-{name}", f"go test {options}") for name, options in {
        "v": "-v ./...", "count2": "-v -count=2 ./...", "run": "-v -run TestAdd ./...", "cover": "-v -short -cover ./...",
        "quiet": "./...", "json": "-json ./...", "-v-ok-run": "-v ./ok", "-v-par-run": "-v ./par",
        "-v-parallel-1-par-run": "-v -parallel=1 ./par", "-v-failfast-par-ok-run": "-v -failfast ./par ./ok",
        "-v-run-othing-ok-run": "-v -run=Nothing ./ok", "-v-timeout-1ms-par-run": "-v -timeout=1ms ./par",
        "-v-vet-off-broken-run": "-v -vet=off ./broken"}.items()),
    *(("ruby", f"ruby-mini-v{seed}", f"ruby mini.rb -v --seed {seed}") for seed in (1, 2, 3)),
    ("ruby", "ruby-mini-q", "ruby mini.rb --seed 1"),
    ("ruby", "ruby-mini-one", "ruby mini.rb -v -n /adds/"),
    *(("ruby", f"ruby-unit-{level}", f"ruby unit.rb --verbose={level}") for level in ("verbose", "progress", "normal")),
    ("ruby", "ruby-unit-v", "ruby unit.rb -v --no-use-color"),
    ("ruby", "ruby-unit-one", "ruby unit.rb --verbose=verbose -n /add/"),
    ("ruby", "ruby-rspec-json", "rspec -f json spec"),
    ("ruby", "ruby-rspec-doc", "rspec -f documentation spec"),
    ("ruby", "ruby-rspec-progress", "rspec -f progress spec"),
    ("ruby", "ruby-rspec-transformed", "rspec -f json -o r.json spec; ruby -rjson -e "
     "'JSON.parse(File.read(\"r.json\"))[\"examples\"].each { |e| puts \"#{e[\"full_description\"]} - #{e[\"status\"]}\" }'"),
    *(("php", f"php-{name}", f"phpunit {options}") for name, options in {
        "testdox": "--testdox CalcTest.php", "testdox-color": "--testdox --colors=always CalcTest.php",
        "testdox-good": "--testdox --verbose OtherTest.php", "testdox-two": "--testdox .", "plain": "CalcTest.php",
        "debug": "--debug CalcTest.php", "filter": "--testdox --filter Rows .", "stop": "--testdox --stop-on-failure .",
        "none": "--testdox Nothing.php", "reverse": "--testdox --order-by=reverse ."}.items()),
    ("perl", "perl-prove", "prove -v t"), ("perl", "perl-quiet", "prove t"),
    ("perl", "perl-a", "perl t/a.t"), ("perl", "perl-b", "perl t/b.t"),
    *(("js", f"js-jest-{name}", f"{JEST} {options}") for name, options in {
        "plain": "", "verbose": "--verbose", "filter": "--verbose -t adds", "color": "--verbose --colors",
        "raw": "--json 2>/dev/null"}.items()),
    ("js", "js-jest-none", "jest nothing"),
    ("js", "js-jest-json", f"{JEST} --json > r.json 2>/dev/null; node transform.js r.json"),
    ("js", "js-vitest-json", "vitest run --globals --reporter=json > r.json 2>/dev/null; node transform.js r.json"),
    *(("js", f"js-vitest-{name}", f"vitest run --globals --reporter={name}")
      for name in ("verbose", "default", "tap", "tap-flat", "dot", "basic")),
    ("js", "js-vitest-color", "FORCE_COLOR=1 vitest run --globals --reporter=verbose"),
    *(("js", f"js-mocha-{name}", f"mocha a.test.js --reporter {name}") for name in (
        "spec", "dot", "list", "min", "nyan", "landing", "progress", "doc", "markdown", "xunit", "json-stream", "json", "tap")),
    ("js", "js-mocha-color", "mocha a.test.js --color"),
    ("js", "js-node-tap", "node --test --test-reporter=tap node.test.mjs"),
    ("js", "js-node-spec", "node --test --test-reporter=spec node.test.mjs"),
    ("js", "js-prism", "for run in 1 2; do echo '+ ./node_modules/.bin/mocha tests/run.js --reporter json'; "
     "mocha a.test.js --reporter json; echo; done"),
    ("js", "js-calypso", f"echo '+ ./node_modules/.bin/jest --verbose a.test.js'; {JEST} --verbose"),
    ("js", "js-lighthouse", "echo 'running 1 test files'; mocha a.test.js"),
    ("js", "js-lighthouse-json", "echo '+ ./node_modules/.bin/mocha --reporter json'; mocha a.test.js --reporter json"),
    ("c", "c-doctest", "g++ d.cpp -o d && ./d -s -r=xml"), ("c", "c-doctest-plain", "./d"),
    ("c", "c-doctest-plain-xml", "./d -s -r=xml -tc=plain"), ("c", "c-doctest-noise", "echo noise before; ./d -s -r=xml"),
    ("c", "c-gtest", f"g++ -I{GTEST} -I{GTEST}/include g.cpp {GTEST}/src/gtest-all.cc {GTEST}/src/gtest_main.cc -lpthread -o g && ./g"),
    ("c", "c-gtest-color", "./g --gtest_color=yes"), ("c", "c-gtest-twice", "./g --gtest_repeat=2"),
    *(("java", f"java-mvn-{test.replace('#', '-')}", f"echo '+ mvn test -B -T 1C -Dtest={test}'; {MAVEN} -Dtest={test}")
      for test in ("CalcTest#adds", "CalcTest#bad", "OtherTest", "Nothing")),
    ("java", "java-mvn-all", "; ".join(f"echo '+ mvn test -Dtest={test}'; {MAVEN} -Dtest={test}"
                                       for test in ("CalcTest#adds", "CalcTest#bad", "OtherTest"))),
    ("java", "java-mvn-plain", MAVEN), ("java", "java-ant", "ant"),
]


def main(modules):
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place) / "testbed"
        shutil.copytree(HERE / "runners", place)
        (place / "js/node_modules").symlink_to(modules)
        (place / "js/package.json").write_text("{}")
        env = {**os.environ, "NO_COLOR": "1", "CI": "1", "GOPROXY": "off", "GOCACHE": str(place / "cache"),
               "PATH": f"{modules}/.bin:{os.environ['PATH']}"}
        for folder, name, line in RUNS:
            done = subprocess.run(line, shell=True, cwd=place / folder, env=env, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if done.returncode == 127:
                print(f"unchanged: {name}: {line}")
                continue
            text = done.stdout.decode(errors="replace").replace(str(place), "/testbed")
            (HERE / "languages" / f"{name}.txt").write_text(text)


main(pathlib.Path(sys.argv[1]).resolve())
