#!/usr/bin/python3
"""The closing lines of .ci/run: what counts as passed, failed and skipped."""

import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SUMMARY = os.path.join(HERE, "..", "..", ".ci", "summary.py")
REPORT = """<testsuite>
<testcase name="good" status="run"><system-out>[  SKIPPED ] 1 test, listed below:</system-out>
</testcase>
<testcase name="cases" status="run"><system-out>a.cc:2: Skipped
no disk
[  SKIPPED ] A.b (0 ms)
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] A.b
SKIPPED: half of it</system-out></testcase>
<testcase name="asked" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
<system-out>SKIP: no loop device</system-out></testcase>
%s</testsuite>
"""


class SummaryTest(unittest.TestCase):
    def summary(self, tests, steps, failed=()):
        with tempfile.TemporaryDirectory() as results:
            with open(os.path.join(results, "release.xml"), "w", encoding="utf-8") as f:
                f.write(REPORT % tests)
            run = subprocess.run([sys.executable, SUMMARY, results, *steps, "--", *failed],
                                 capture_output=True, text=True, check=False)
        self.assertEqual(run.stderr, "")
        return run.returncode, run.stdout.splitlines()

    def test_all_well(self):
        status, lines = self.summary("", ["release", "nothing-left"])
        self.assertEqual(status, 0)
        self.assertEqual(lines, ["skipped release: cases: A.b: no disk",
                                 "skipped release: cases: half of it",
                                 "skipped release: asked: no loop device",
                                 "3 passed, 0 failed, 3 skipped"])

    def test_failures(self):
        for test, name in (('<testcase name="bad" status="fail"/>', "release: bad"),
                           ('<testcase name="gone" status="notrun">'
                            '<skipped message="Unable to find executable"/></testcase>',
                            "release: gone")):
            status, lines = self.summary(test, ["release"], ["release"])
            self.assertEqual(status, 1)
            self.assertEqual(lines[-2:], [f"failed {name}", "2 passed, 1 failed, 3 skipped"])

    def test_step_that_failed_by_itself(self):
        for step in ("release", "build"):
            status, lines = self.summary("", ["release", "build"], [step])
            self.assertEqual(status, 1)
            self.assertIn(f"failed {step}", lines)
            self.assertIn(" 1 failed, ", lines[-1])


if __name__ == "__main__":
    unittest.main()
