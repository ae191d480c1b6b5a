#!/usr/bin/python3
"""Proof that each check of check.py finds what it is there to find, and nothing in a clean tree."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check.py")
# Built at run time so that these words don't stand in this file.
OPEN_WORK = "TO" + "DO"
SOME_PATH = "/wo" + "rk/here"


class CheckTest(unittest.TestCase):
    def run_check(self, name, tree, executable=(), compiled=(), tests=""):
        with tempfile.TemporaryDirectory() as root:
            for path, text in tree.items():
                full = os.path.join(root, path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8", newline="") as f:
                    f.write(text)
                os.chmod(full, 0o755 if path in executable else 0o644)
            build = os.path.join(root, "build")
            os.makedirs(build)
            real = os.path.realpath(root)
            with open(os.path.join(build, "compile_commands.json"), "w", encoding="utf-8") as f:
                json.dump([{"file": os.path.join(real, path)} for path in compiled], f)
            with open(os.path.join(build, "CTestTestfile.cmake"), "w", encoding="utf-8") as f:
                f.write(tests.replace("ROOT", real))
            run = subprocess.run([sys.executable, CHECK, name, "--root", root, "--build", build],
                                 capture_output=True, text=True, check=False)
        self.assertEqual(run.stderr, "")
        return run.returncode, run.stdout

    def assert_clean(self, name, tree, **options):
        self.assertEqual(self.run_check(name, tree, **options), (0, ""))

    def assert_bites(self, name, tree, *expected, **options):
        status, output = self.run_check(name, tree, **options)
        self.assertEqual(status, 1, output)
        for line in expected:
            self.assertIn(line, output)
        self.assertEqual(len(output.splitlines()), len(expected), output)


class Ranks(CheckTest):
    TREE = {
        "include/uzram/a.h": "",
        "src/base/b.h": '#include "uzram/a.h"\n#include <vector>\n',
        "src/codec/c.h": '#include "base/b.h"\n',
        "src/pool/p.h": '#include "base/b.h"\n',
        "src/device/d.h": '#include "codec/c.h"\n#include "pool/p.h"\n',
        "src/attach/attachment.h": '#include "device/d.h"\n',
        "src/attach/nbd/wire/w.h": '#include "attach/attachment.h"\n',
        "src/attach/nbd/n.h": '#include "attach/nbd/wire/w.h"\n',
        "src/attach/loop/l.h": '#include "attach/attachment.h"\n',
        "src/control/s.h": '#include "device/d.h"\n',
        "bench/b.h": '#include "device/d.h"\n',
        "src/cli/m.cc": '#include "attach/nbd/n.h"\n#include "bench/b.h"\n',
        "tests/t.cc": '#include "cli/m.cc"\n#include "tests/t.h"\n',
        "tests/t.h": "",
    }

    def test_clean(self):
        self.assert_clean("ranks", self.TREE)

    def check_include(self, path, include, why):
        self.assert_bites("ranks", {**self.TREE, path: f"\n#include {include}\n"},
                          f"{path}:2: {why}")

    def test_up(self):
        self.check_include("src/base/x.cc", '"device/d.h"', "src/base may not include src/device")
        self.check_include("src/device/x.cc", '"cli/m.cc"', "src/device may not include src/cli")
        self.check_include("bench/x.cc", '"cli/m.cc"', "bench may not include src/cli")

    def test_up_in_angle_brackets(self):
        self.check_include("src/base/x.cc", "<device/d.h>", "src/base may not include src/device")

    def test_public_header_sees_only_public_headers(self):
        self.check_include("include/uzram/x.h", '"base/b.h"', "include/uzram may not include")

    def test_sideways(self):
        self.check_include("src/codec/x.cc", '"pool/p.h"', "src/codec may not include src/pool")
        self.check_include("src/attach/x.cc", '"control/s.h"', "src/attach may not include")
        self.check_include("src/control/x.cc", '"attach/attachment.h"',
                           "src/control may not include")

    def test_front_ends(self):
        why = "belongs to another front-end"
        self.check_include("src/attach/loop/x.cc", '"attach/nbd/n.h"',
                           "src/attach/nbd/n.h " + why)
        self.check_include("src/attach/x.cc", '"attach/nbd/n.h"', "src/attach/nbd/n.h " + why)

    def test_product_does_not_see_tests(self):
        self.check_include("src/cli/x.cc", '"tests/t.h"', '"tests/t.h" is not written from')

    def test_relative(self):
        self.check_include("src/base/x.cc", '"b.h"', '"b.h" is not written from src/')
        self.check_include("src/base/x.cc", '"../base/b.h"', '"../base/b.h" is not written')
        self.check_include("src/cli/x.cc", '"src/base/b.h"', '"src/base/b.h" is not written')

    def test_missing(self):
        self.check_include("src/base/x.cc", '"base/gone.h"', '"base/gone.h" is not in the tree')

    def test_folder_without_rank(self):
        self.assert_bites("ranks", {**self.TREE, "src/extra/x.cc": ""},
                          "src/extra/x.cc:1: this folder has no rank")


class Orphans(CheckTest):
    TREE = {
        "src/base/a.cc": '#include "base/a.h"\n',
        "src/base/a.h": "",
        "tests/a_test.cc": '#include "tests/support/s.h"\n',
        "tests/support/s.h": "",
        "tests/run.py": "import helper\n",
        "tests/helper.py": "",
    }
    OPTIONS = {
        "compiled": ["src/base/a.cc", "tests/a_test.cc"],
        "tests": 'add_test(run "ROOT/tests/run.py" "x")\n',
    }

    def test_clean(self):
        self.assert_clean("orphans", self.TREE, **self.OPTIONS)

    def test_source_compiled_by_nothing(self):
        for path in ("src/base/b.cc", "tests/b_test.cc", "bench/b.cc"):
            self.assert_bites("orphans", {**self.TREE, path: ""},
                              f"{path}:1: compiled by no target", **self.OPTIONS)

    def test_script_run_by_nothing(self):
        for path in ("tests/b.py", "tests/run.py.sh", "tests/e2e/b.sh"):
            self.assert_bites("orphans", {**self.TREE, path: ""}, f"{path}:1: run by no test",
                              **self.OPTIONS)

    def test_header_included_by_nothing(self):
        for path in ("src/base/b.h", "include/uzram/b.h", "tests/support/b.h"):
            self.assert_bites("orphans", {**self.TREE, path: ""},
                              f"{path}:1: included by nothing", **self.OPTIONS)

    def test_build_without_tests(self):
        status, output = self.run_check("orphans", self.TREE)
        self.assertEqual(status, 1)
        self.assertIn("tests/a_test.cc:1: compiled by no target", output)


class Format(CheckTest):
    STYLE = {".clang-format": "BasedOnStyle: Google\n"}

    def test_clean(self):
        self.assert_clean("format", {**self.STYLE, "src/base/a.cc": "int a = 1;\n"})

    def test_bites(self):
        for path in ("src/base/a.cc", "include/uzram/a.h", "tests/a.cc", "bench/a.cc"):
            self.assert_bites("format", {**self.STYLE, path: "int b;\nint  a=1;\n"},
                              f"{path}:2: clang-format would change this file")


class Text(CheckTest):
    def test_clean(self):
        self.assert_clean("text", {"src/a.cc": "int a;\n", "b.md": "", "c.png": "\t \r"})

    def test_bites(self):
        for line, why in ((f"// {OPEN_WORK}: later", "work left open"),
                          (f"cd {SOME_PATH}", "a path of one machine"),
                          ("int a; ", "trailing blank"),
                          ("\tint a;", "tab"),
                          ("int a;\r", "carriage return")):
            self.assert_bites("text", {"docs/a.md": f"one\n{line}\n"}, f"docs/a.md:2: {why}")

    def test_no_newline_at_the_end(self):
        self.assert_bites("text", {"a.md": "one\ntwo"}, "a.md:2: no newline at the end")


class Scripts(CheckTest):
    def test_clean(self):
        self.assert_clean("scripts", {"a": "#!/bin/bash\ntrue\n", "b.sh": "true\n", "c.py": "1\n"},
                          executable=("a",))

    def test_bites(self):
        self.assert_bites("scripts", {"a": "#!/usr/bin/env bash\nif\n"}, "a:1: ", executable=("a",))
        self.assert_bites("scripts", {"b.sh": "if\n"}, "b.sh:1: ")
        self.assert_bites("scripts", {"c.py": "\ndef\n"}, "c.py:2: ")
        self.assert_bites("scripts", {"d": "#!/bin/bash\n"}, "d:1: has a #! line")


if __name__ == "__main__":
    unittest.main()
