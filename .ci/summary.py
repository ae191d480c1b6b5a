#!/usr/bin/python3
"""Sums up the steps of .ci/run.

    summary.py RESULTS_DIR STEP... -- FAILED_STEP...

A step with RESULTS_DIR/STEP.xml (JUnit, by ctest) counts as its tests, any other step as one test.
Names failed and skipped tests, skipped cases inside a passed test included; the last line is the
total. Exit status: 0 when nothing failed.
"""

import os
import re
import sys
import xml.etree.ElementTree as ElementTree

# How a case inside a test says that it was skipped, and why: GoogleTest, our scripts' own line,
# Python's unittest.
GTEST = re.compile(r"(?:: Skipped\n(.*)\n\s*)?^\[  SKIPPED \] (\S+) \(", re.MULTILINE)
SCRIPT = re.compile(r"^SKIP(?:PED)?:? (.*)$", re.MULTILINE)
UNITTEST = re.compile(r"^(.*) \.\.\. skipped (.*)$", re.MULTILINE)


def skipped_cases(test):
    output = test.findtext("system-out") or ""
    return ([f"{name}: {why}" if why else name for why, name in GTEST.findall(output)] +
            SCRIPT.findall(output) +
            [f"{name}: {why}" for name, why in UNITTEST.findall(output)])


def outcome(test):
    """passed, skipped or failed. A program that could not be started is "notrun" to CTest too."""
    if test.get("status") == "run":
        return "passed"
    reason = test.find("skipped")
    asked = reason is not None and reason.get("message", "").startswith("SKIP_")
    return "skipped" if asked or test.get("status") == "disabled" else "failed"


def main():
    results, rest = sys.argv[1], sys.argv[2:]
    split = rest.index("--")
    steps, failed_steps = rest[:split], rest[split + 1:]
    passed, failed, skipped = 0, [], []
    for step in steps:
        report = os.path.join(results, step + ".xml")
        failed_before = len(failed)
        if os.path.exists(report):
            for test in ElementTree.parse(report).getroot().iter("testcase"):
                name = f"{step}: {test.get('name')}"
                result = outcome(test)
                if result == "passed":
                    passed += 1
                    skipped += [f"{name}: {case}" for case in skipped_cases(test)]
                elif result == "skipped":
                    skipped.append(": ".join([name] + skipped_cases(test)))
                else:
                    failed.append(name)
        elif step not in failed_steps:
            passed += 1
        if step in failed_steps and len(failed) == failed_before:
            failed.append(step)
    for name in skipped:
        print(f"skipped {name}")
    for name in failed:
        print(f"failed {name}")
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
