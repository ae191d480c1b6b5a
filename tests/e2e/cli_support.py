"""What the tests of the command line share: running the program, its runtime directory, its end."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import unittest

UZRAM = ""
PATIENCE = 120  # seconds that a wait which should succeed may take; loaded machines are slow


class CommandLine(unittest.TestCase):
    """A test with a runtime directory of its own; whatever still runs at its end is killed."""

    def setUp(self):
        self.temp = tempfile.TemporaryDirectory(prefix="uzram-cli-")
        self.addCleanup(self.temp.cleanup)
        self.run_dir = os.path.join(self.temp.name, "run")
        self.env = dict(os.environ, UZRAM_RUNTIME_DIR=self.run_dir)
        self.addCleanup(self.kill_all)

    def kill_all(self):
        for device in self.devices():
            if device["state"] != "dead" and device["pid"] > 0:
                self.kill(device["pid"])
        for device in self.devices():
            self.uzram("stop", device["name"])

    def uzram(self, *args, **options):
        settings = dict(capture_output=True, text=True, timeout=PATIENCE, env=self.env)
        settings.update(options)
        return subprocess.run([UZRAM, *args], **settings)

    def ok(self, *args, **options):
        """Runs what has to succeed without a word on standard error; its output."""
        done = self.uzram(*args, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""), args)
        return done.stdout

    def refused(self, status, *args, **options):
        """Runs what has to fail: the exit status, nothing on standard output, one line of error."""
        done = self.uzram(*args, **options)
        self.assertEqual((done.returncode, done.stdout), (status, ""), (args, done.stderr))
        self.assertEqual(done.stderr.count("\n"), 1, (args, done.stderr))
        self.assertTrue(done.stderr.startswith("uzram: ") and done.stderr.endswith("\n"), args)
        return done.stderr

    def start(self, name, *args):
        """The attachments' lines, split."""
        out = self.ok("start", name, "--size", "16M", *args)
        return [line.split("\t") for line in out.splitlines()]

    def devices(self):
        return json.loads(self.uzram("list", "--json").stdout or "[]")

    def device(self, name):
        return next(device for device in self.devices() if device["name"] == name)

    def stat(self, name):
        return json.loads(self.ok("stat", name, "--json"))

    def left(self):
        """Files in the runtime directory."""
        return sorted(os.listdir(self.run_dir)) if os.path.isdir(self.run_dir) else []

    def kill(self, pid, how=signal.SIGKILL):
        """Sends the signal and waits until the process has ended."""
        process = os.pidfd_open(pid)
        signal.pidfd_send_signal(process, how)
        self.wait_for(process)

    def wait_for_end(self, pid):
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        self.wait_for(process)

    def wait_for(self, process):
        """Waits for a pidfd's process, and closes the pidfd."""
        try:
            ended, _, _ = select.select([process], [], [], PATIENCE)
            self.assertTrue(ended, "the process did not end")
        finally:
            os.close(process)


def main():
    global UZRAM
    UZRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(module="__main__")
