#!/usr/bin/python3
"""Write-back from the command line: backing stores of each kind, who has them and until when.

    cli_write_back_test.py UZRAM
"""

import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import cli_support
from cli_support import CommandLine

try:
    import nbd
except ImportError:
    nbd = None

PAGE = 4096


class WriteBack(CommandLine):
    def make_file(self, name="store", size=16 << 20):
        path = os.path.join(self.temp.name, name)
        with open(path, "wb") as file:
            file.truncate(size)
        return path

    def client(self, name):
        if nbd is None:
            self.skipTest("needs python3-libnbd")
        client = nbd.NBD()
        client.connect_uri(self.device(name)["attachments"][0]["where"])
        return client

    def nbdkit(self, size="16M"):
        """An export in memory; its URI and the server's process id."""
        if shutil.which("nbdkit") is None:
            self.skipTest("needs nbdkit")
        socket = os.path.join(self.temp.name, "nbdkit.sock")
        pid_file = socket + ".pid"
        server = subprocess.Popen(["nbdkit", "-f", "-U", socket, "-P", pid_file, "memory", size])
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        while not os.path.exists(pid_file):  # there once it listens
            self.assertIsNone(server.poll())
            time.sleep(0.01)
        return f"nbd+unix:///?socket={socket}", server.pid

    def loop_device(self, path):
        made = subprocess.run(["losetup", "--find", "--show", path], capture_output=True, text=True,
                              check=False)
        if made.returncode != 0:
            self.skipTest("no loop device to be had: " + made.stderr.strip())
        loop = made.stdout.strip()
        self.addCleanup(subprocess.run, ["losetup", "--detach", loop], check=True)
        return loop

    def is_free(self, where):
        """Whether another device can have the store."""
        done = self.uzram("start", "other", "--backing", where)
        if done.returncode == 0:
            self.ok("stop", "other")
        else:
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("in use", done.stderr)
        return done.returncode == 0

    def check_store(self, where, *settings):
        """Pages go there, are read back, changed, and the store is free at the end."""
        self.ok("start", "a", "--backing", where, "--nbd", "auto")
        for attribute, value in settings:
            self.ok("set", "a", attribute, value)
        self.ok("set", "a", "disksize", "16M")
        self.assertEqual(self.ok("get", "a", "backing_dev"), where + "\n")
        device = self.device("a")
        self.assertEqual((device["backing"], device["backing_size"]), (where, 16 << 20))
        self.assertFalse(self.is_free(where))
        client = self.client("a")
        pages = [os.urandom(PAGE // 2) + bytes([page]) * (PAGE // 2) for page in range(256)]
        client.pwrite(b"".join(pages), 0)
        self.ok("writeback", "a", "idle")
        self.assertEqual(self.ok("get", "a", "bd_stat"), "0 0 0\n")
        before = int(self.ok("get", "a", "mm_stat").split()[2])
        self.ok("idle", "a")
        self.ok("writeback", "a", "idle", "page_indexes=0-99", "page_index=255")
        count, _, written = map(int, self.ok("get", "a", "bd_stat").split())
        self.assertGreater(count, 0)
        self.ok("writeback", "a", "type=idle")
        stat = self.stat("a")
        self.assertGreater(stat["bd_count"], count)
        self.assertGreater(stat["bd_writes"], written)
        self.assertEqual(stat["orig_data_size"], 256 * PAGE)
        self.assertLess(stat["mem_used_total"], before)
        self.assertRegex(self.ok("stat", "a"), "(?m)^BACKING STORE +SIZE +USED\n"
                         + re.escape(where) + r" +16\.0M +\d")
        for page in (0, 99, 255):
            self.assertEqual(client.pread(PAGE, page * PAGE), pages[page])
        self.assertGreater(self.stat("a")["bd_reads"], 0)
        client.pwrite(b"x", 7 * PAGE + 1)
        pages[7] = pages[7][:1] + b"x" + pages[7][2:]
        self.assertEqual(client.pread(256 * PAGE, 0), b"".join(pages))
        client.trim(256 * PAGE, 0)
        self.assertEqual(self.stat("a")["bd_count"], 0)
        client.shutdown()
        self.ok("set", "a", "reset", "1")
        self.assertEqual(self.ok("get", "a", "backing_dev"), "none\n")
        self.assertTrue(self.is_free(where))
        self.ok("stop", "a")

    def test_a_file(self):
        self.check_store(self.make_file())

    def test_a_file_of_packed_pages(self):
        self.check_store(self.make_file(), ("compressed_writeback", "1"))

    def test_a_block_device(self):
        self.check_store(self.loop_device(self.make_file()))

    def test_an_nbd_export(self):
        uri, _ = self.nbdkit()
        self.ok("start", "a", "--backing", uri, "--nbd", "auto", "--size", "16M")
        client = self.client("a")
        data = os.urandom(64 * PAGE)
        client.pwrite(data, 0)
        self.ok("writeback", "a", "huge")
        self.assertEqual(self.ok("get", "a", "bd_stat"), "64 0 64\n")
        self.assertEqual(client.pread(len(data), 0), data)
        client.shutdown()

    def test_a_path_is_taken_from_where_the_command_runs(self):
        path = self.make_file()
        self.ok("start", "a", "--backing", os.path.relpath(path))
        self.assertEqual(os.path.realpath(self.device("a")["backing"]), os.path.realpath(path))
        self.assertIn("absolute", self.refused(2, "set", "a", "backing_dev", os.path.relpath(path)))

    def test_what_is_refused_leaves_nothing(self):
        small = self.make_file("small", PAGE - 1)
        for where, status in ((small, 2), ("/dev/null", 2), (self.temp.name, 2),
                              (self.temp.name + "/none", 1), ("http://example.org/", 2),
                              (f"nbd+unix:///?socket={self.temp.name}/none", 1)):
            for size in ((), ("--size", "1M", "--nbd", "auto")):
                error = self.refused(status, "start", "a", *size, "--backing", where)
                self.assertIn("--backing ", error)
                self.assertEqual(self.left(), [])

    def test_a_store_serves_one_device(self):
        path = self.make_file()
        self.ok("start", "a", "--backing", path)
        error = self.refused(1, "start", "b", "--size", "1M", "--backing", path)
        self.assertIn(f"{path}: in use", error)
        self.ok("start", "b")
        self.refused(1, "set", "b", "backing_dev", path)
        self.assertEqual(self.ok("get", "b", "backing_dev"), "none\n")

    def test_it_is_free_after_a_device_that_never_had_a_size(self):
        path = self.make_file()
        self.ok("start", "a")
        for end in (("set", "a", "backing_dev", "none"), ("set", "a", "reset", "1"), ("stop", "a")):
            self.ok("set", "a", "backing_dev", path)
            self.assertFalse(self.is_free(path))
            self.ok(*end)
            self.assertTrue(self.is_free(path), end)
        self.ok("start", "a", "--backing", path)
        self.kill(self.device("a")["pid"], signal.SIGTERM)
        self.assertTrue(self.is_free(path))
        self.assertEqual(self.left(), [])

    def test_it_is_fixed_once_the_device_has_a_size(self):
        path = self.make_file()
        self.start("a")
        self.assertIn("is fixed", self.refused(1, "set", "a", "backing_dev", path))
        self.assertTrue(self.is_free(path))

    # The device's own ways in are there only once it has a size, and then it is too late: what
    # stands in their place before is nobody's yet.
    def test_a_device_cannot_be_its_own_store(self):
        socket = os.path.join(self.temp.name, "a.nbd")
        uri = f"nbd+unix:///a?socket={socket}"
        self.refused(1, "start", "a", "--size", "1M", "--nbd", f"unix:{socket}", "--backing", uri)
        self.ok("start", "a", "--nbd", f"unix:{socket}")
        self.refused(1, "set", "a", "backing_dev", uri)
        self.ok("set", "a", "disksize", "1M")
        self.assertIn("is fixed", self.refused(1, "set", "a", "backing_dev", uri))
        self.ok("stop", "a")
        if self.uzram("start", "a", "--size", "1M", "--loop").returncode != 0:
            self.skipTest("no loop device to be had")
        loop = self.device("a")["attachments"][0]["where"]
        self.assertIn("is fixed", self.refused(1, "set", "a", "backing_dev", loop))
        self.ok("set", "a", "reset", "1")
        if os.path.exists(loop):
            self.refused(2, "set", "a", "backing_dev", loop)

    def test_errors_of_passes(self):
        self.start("a")
        for args in (("writeback", "a"), ("writeback", "a", "cold"), ("writeback", "a", "page=1")):
            self.refused(2, *args)
        self.assertIn("no backing store", self.refused(1, "writeback", "a", "idle"))
        self.ok("stop", "a")
        self.ok("start", "a", "--backing", self.make_file("small", 16 * PAGE))
        self.assertIn("no size yet", self.refused(2, "writeback", "a", "idle"))
        self.ok("set", "a", "writeback_limit", "4")
        self.ok("set", "a", "writeback_limit_enable", "1")
        self.ok("set", "a", "disksize", "16M")
        self.refused(1, "writeback", "a", "page_index=4096")
        self.refused(1, "writeback", "a", "page_indexes=2-1")
        self.ok("writeback", "a", "page_indexes=0-4095")

    def test_budget_and_a_full_store(self):
        self.ok("start", "a", "--backing", self.make_file("small", 16 * PAGE), "--nbd", "auto")
        self.ok("set", "a", "disksize", "16M")
        data = os.urandom(32 * PAGE)
        client = self.client("a")
        client.pwrite(data, 0)
        self.ok("set", "a", "writeback_limit", "4")
        self.ok("set", "a", "writeback_limit_enable", "1")
        self.assertIn("budget", self.refused(1, "writeback", "a", "huge"))
        self.assertEqual(self.ok("get", "a", "writeback_limit"), "0\n")
        self.assertEqual(self.ok("get", "a", "bd_stat"), "4 0 4\n")
        self.ok("set", "a", "writeback_limit_enable", "0")
        self.assertIn("full", self.refused(1, "writeback", "a", "huge"))
        self.assertLessEqual(self.stat("a")["bd_count"], 16)
        self.assertEqual(client.pread(len(data), 0), data)
        client.shutdown()
        self.ok("set", "a", "reset", "1")
        self.assertEqual(self.ok("get", "a", "writeback_limit"), "0\n")

    def test_the_end_does_not_wait_for_a_server_that_hangs(self):
        uri, server = self.nbdkit()
        for end in (lambda: self.ok("stop", "a"), lambda: self.ok("stop", "a", "--force"),
                    lambda: self.kill(self.device("a")["pid"], signal.SIGTERM)):
            self.ok("start", "a", "--backing", uri, "--nbd", "auto", "--size", "16M")
            client = self.client("a")
            client.pwrite(os.urandom(64 * PAGE), 0)
            self.ok("writeback", "a", "huge")
            os.kill(server, signal.SIGSTOP)
            self.assertTrue(os.WIFSTOPPED(os.waitpid(server, os.WUNTRACED)[1]))
            try:
                client.aio_pread(nbd.Buffer(PAGE), 0)
                client.poll(0)
                end()
            finally:
                os.kill(server, signal.SIGCONT)
            self.assertEqual(self.left(), [])


if __name__ == "__main__":
    cli_support.main()
