#!/usr/bin/python3
"""A backing store that fails, is slow, is killed, or comes back empty: every byte that is read is
right, every request ends, and what is in memory is served meanwhile.

    write_back_fault_test.py UZRAM
"""

import os
import random
import shutil
import signal
import subprocess
import threading
import time

import cli_support
from cli_support import CommandLine

try:
    import nbd
except ImportError:
    nbd = None

PAGE = 4096
PAGES = 1024
SIZE = "4M"


class Faults(CommandLine):
    def setUp(self):
        super().setUp()
        if nbd is None or shutil.which("nbdkit") is None:
            self.skipTest("needs python3-libnbd and nbdkit")
        self.random = random.Random(1)
        self.socket = os.path.join(self.temp.name, "store.sock")

    def store(self, *filters, size=SIZE):
        """Starts an export in memory behind the filters; its server."""
        pid_file = self.socket + ".pid"
        for path in (self.socket, pid_file):
            if os.path.exists(path):
                os.remove(path)
        named = [word for word in filters if word.startswith("--filter")]
        others = [word for word in filters if not word.startswith("--filter")]
        server = subprocess.Popen(["nbdkit", "-f", "-U", self.socket, "-P", pid_file, *named, "memory",
                                   size, *others], stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        while not os.path.exists(pid_file):
            self.assertIsNone(server.poll())
            time.sleep(0.01)
        return server

    def device(self, *settings):
        """A device on that store, and a client of it."""
        self.ok("start", "a", "--backing", f"nbd+unix:///?socket={self.socket}", "--nbd", "auto")
        for attribute, value in settings:
            self.ok("set", "a", attribute, value)
        self.ok("set", "a", "disksize", SIZE)
        self.pages = [b"\0" * PAGE] * PAGES
        return self.client()

    def client(self):
        client = nbd.NBD()
        client.connect_uri(super().device("a")["attachments"][0]["where"])
        return client

    def put(self, client, page, data):
        client.pwrite(data, page * PAGE)
        self.pages[page] = data

    def page(self):
        """Halves, is random throughout, or repeats a little text."""
        kind = self.random.randrange(3)
        if kind == 0:
            return self.random.randbytes(PAGE)
        if kind == 1:
            return self.random.randbytes(PAGE // 2) + b"h" * (PAGE // 2)
        return (b"%08x" % self.random.getrandbits(32)) * (PAGE // 8)

    def read(self, client, page):
        """The page, or None where it can't be read."""
        try:
            return client.pread(PAGE, page * PAGE)
        except nbd.Error as error:
            self.assertEqual(error.errno, "EIO", str(error))
            return None

    def check_all(self, client):
        """Every page that can be read is right; how many can't."""
        lost = 0
        for page in range(PAGES):
            data = self.read(client, page)
            if data is None:
                lost += 1
            else:
                self.assertEqual(data, self.pages[page], page)
        return lost

    def check_errors(self, *settings):
        switch = os.path.join(self.temp.name, "errors")
        self.store("--filter=error", "error-pread-rate=20%", "error-pwrite-rate=20%",
                   "error=EIO", "error-file=" + switch)
        client = self.device(*settings)
        with open(switch, "w", encoding="ascii"):
            pass
        failed = 0
        for _ in range(6):
            for _ in range(300):
                self.put(client, self.random.randrange(PAGES), self.page())
            done = self.uzram("writeback", "a", "page_indexes=0-1023")
            self.assertIn(done.returncode, (0, 1))
            failed += done.returncode
            for _ in range(60):  # parts of pages, some of them on the store
                page, at = self.random.randrange(PAGES), self.random.randrange(PAGE - 100)
                data = self.random.randbytes(100)
                try:
                    client.pwrite(data, page * PAGE + at)
                except nbd.Error as error:
                    self.assertEqual(error.errno, "EIO")
                    continue
                old = self.pages[page]
                self.pages[page] = old[:at] + data + old[at + 100:]
            self.check_all(client)
        self.assertGreater(failed, 0, "no write ever failed")
        os.remove(switch)
        self.assertEqual(self.check_all(client), 0)
        client.trim(PAGES * PAGE, 0)
        self.assertEqual(self.stat("a")["bd_count"], 0)
        client.shutdown()
        self.ok("stop", "a")

    def test_errors_of_reads_and_writes(self):
        self.check_errors()

    def test_errors_with_packed_pages(self):
        self.check_errors(("compressed_writeback", "1"))

    def test_a_store_without_space(self):
        switch = os.path.join(self.temp.name, "errors")
        self.store("--filter=error", "error-pwrite-rate=100%", "error=ENOSPC", "error-file=" + switch)
        client = self.device()
        for page in range(100):
            self.put(client, page, self.random.randbytes(PAGE))
        with open(switch, "w", encoding="ascii"):
            pass
        self.assertIn("space", self.refused(1, "writeback", "a", "huge"))
        self.assertEqual(self.stat("a")["bd_count"], 0)
        self.assertEqual(self.check_all(client), 0)
        os.remove(switch)
        self.ok("writeback", "a", "huge")
        self.assertEqual(self.stat("a")["bd_count"], 100)
        self.assertEqual(self.check_all(client), 0)
        client.shutdown()

    def test_a_full_store(self):
        self.store(size="256K")
        client = self.device()
        for page in range(65):
            self.put(client, page, self.random.randbytes(PAGE))
        self.assertIn("full", self.refused(1, "writeback", "a", "huge"))
        self.assertEqual(self.stat("a")["bd_count"], 64)
        self.assertEqual(self.check_all(client), 0)
        client.shutdown()

    def test_a_killed_store_that_comes_back_empty(self):
        server = self.store()
        client = self.device()
        for page in range(200):
            self.put(client, page, self.random.randbytes(PAGE))
        self.ok("writeback", "a", "page_indexes=0-99")
        server.kill()
        server.wait()
        self.assertEqual(self.check_all(client), 100)
        self.refused(1, "writeback", "a", "huge")
        self.assertEqual(self.check_all(client), 100)
        self.store()
        time.sleep(1.1)  # it is tried once in a second
        self.assertEqual(self.check_all(client), 100)  # zeroes would be wrong data
        for page in range(100):
            self.put(client, page, self.page())
        client.trim(PAGE, 0)
        self.pages[0] = b"\0" * PAGE
        self.assertEqual(self.check_all(client), 0)
        self.assertEqual(self.stat("a")["bd_count"], 0)
        self.ok("writeback", "a", "huge")
        self.assertEqual(self.check_all(client), 0)
        client.shutdown()

    def test_a_stopped_store_holds_up_nobody_but_who_needs_it(self):
        server = self.store()
        client = self.device()
        for page in range(200):
            self.put(client, page, self.random.randbytes(PAGE))
        self.ok("writeback", "a", "page_indexes=0-99")
        os.kill(server.pid, signal.SIGSTOP)
        waiting = self.client()
        outcome = []
        thread = threading.Thread(target=lambda: outcome.append(self.read(waiting, 5)))
        thread.start()
        for page in range(100, 200):
            self.assertEqual(client.pread(PAGE, page * PAGE), self.pages[page])
        self.put(client, 6, self.page())
        self.assertEqual(client.pread(PAGE, 6 * PAGE), self.pages[6])
        self.assertEqual(outcome, [])
        os.kill(server.pid, signal.SIGCONT)
        thread.join()
        self.assertEqual(outcome, [self.pages[5]])
        self.assertEqual(self.check_all(client), 0)
        waiting.shutdown()
        client.shutdown()


if __name__ == "__main__":
    cli_support.main()
