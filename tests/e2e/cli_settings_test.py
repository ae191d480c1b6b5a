#!/usr/bin/python3
"""Devices that wait for their size, as the kernel's do: settings, disksize, reset, and again; and
several devices by one command.

    cli_settings_test.py UZRAM
"""

import os
import subprocess
import unittest

import cli_support
from cli_support import PATIENCE, CommandLine

try:
    import nbd
except ImportError:
    nbd = None


class NewDevices(CommandLine):
    def attributes(self, name):
        return {attr: self.ok("get", name, attr).rstrip("\n") for attr in
                ("disksize", "initstate", "comp_algorithm", "mem_limit", "mm_stat", "io_stat")}

    def start_new(self, *args):
        self.assertEqual(self.ok("start", "a", *args), "")

    def test_a_device_waits_for_its_size(self):
        self.start_new()
        device = self.device("a")
        self.assertEqual((device["state"], device["size"], device["algo"], device["attachments"]),
                         ("new", 0, "lz4", []))
        self.assertRegex(self.ok("list"), r"(?m)^a +\d+ +new +zram +lz4 +-")
        self.assertEqual(self.attributes("a")["mm_stat"], "0 0 0 0 0 0 0 0 0")
        stat = self.stat("a")
        self.assertEqual((stat["state"], stat["orig_data_size"], stat["clients"]), ("new", 0, 0))
        self.ok("stat", "a")
        for args in (["reset", "a"], ["attach", "a", "nbd"]):
            self.assertIn("'a': has no size yet", self.refused(1, *args))
        self.assertIn("no size yet", self.refused(2, "set", "a", "compact", "1"))
        self.ok("stop", "a")
        self.assertEqual(self.left(), [])

    def test_settings_make_the_device_and_reset_forgets_them(self):
        self.start_new("--nbd", "auto", "--block-size", "512")
        fresh = self.attributes("a")
        for _ in range(3):
            self.ok("set", "a", "comp_algorithm", "zstd")
            self.ok("set", "a", "algorithm_params", "level=9")
            self.ok("set", "a", "mem_limit", "8M")
            self.assertEqual(self.device("a")["algo"], "zstd")
            self.assertEqual(self.ok("get", "a", "mem_limit"), f"{8 << 20}\n")
            self.ok("set", "a", "disksize", "16M")
            device = self.device("a")
            self.assertEqual((device["state"], device["size"], device["block_size"]),
                             ("running", 16 << 20, 512))
            self.assertEqual([a["kind"] for a in device["attachments"]], ["nbd"])
            self.assertEqual(self.ok("get", "a", "initstate"), "1\n")
            self.assertEqual(self.ok("get", "a", "mm_stat").split()[3], str(8 << 20))
            self.refused(1, "set", "a", "disksize", "16M")
            self.refused(1, "set", "a", "comp_algorithm", "lz4")
            self.refused(1, "set", "a", "algorithm_params", "level=1")
            self.ok("set", "a", "reset", "1")
            self.assertEqual(self.attributes("a"), fresh)
            self.assertEqual(self.device("a")["attachments"], [])
            self.assertNotIn("a.nbd", self.left())
        self.ok("set", "a", "reset", "1")

    def test_options_of_start_are_settings(self):
        self.start_new("--algo", "deflate", "--level", "3", "--mem-limit", "4M")
        self.assertIn("[deflate]", self.ok("get", "a", "comp_algorithm"))
        self.ok("set", "a", "disksize", "1M")
        self.assertEqual(self.ok("get", "a", "mem_limit"), f"{4 << 20}\n")
        self.ok("set", "a", "reset", "1")
        self.assertIn("[lz4]", self.ok("get", "a", "comp_algorithm"))
        self.assertEqual(self.ok("get", "a", "mem_limit"), "0\n")

    def test_options_of_start_are_judged_without_a_size(self):
        for args in (("--algo", "nosuch"), ("--algo", "842"), ("--algo", "zstd", "--level", "1000")):
            self.assertIn(args[-1], self.refused(2, "start", "a", *args))
        self.assertEqual(self.left(), [])

    def test_a_dictionary_of_start(self):
        path = os.path.join(self.temp.name, "dict")
        page = os.urandom(4096)
        with open(path, "wb") as file:
            file.write(page)
        missing = path + ".none"
        self.assertIn(f"--dict '{missing}': No such file",
                      self.refused(2, "start", "a", "--dict", missing))
        self.assertIn("--dict '/': not a regular", self.refused(2, "start", "a", "--dict", "/"))
        self.refused(1, "start", "a", "--algo", "deflate", "--dict", path)
        self.refused(2, "start", "a", "--type", "ram", "--dict", path)
        self.assertEqual(self.left(), [])
        # From where the command runs, and read once.
        self.ok("start", "a", "--algo", "zstd", "--dict", os.path.relpath(path), "--nbd", "auto")
        os.unlink(path)
        self.ok("set", "a", "disksize", "1M")
        if nbd is None:
            self.skipTest("writing to it needs python3-libnbd")
        client = nbd.NBD()
        client.connect_uri(self.device("a")["attachments"][0]["where"])
        client.pwrite(page, 0)
        self.assertEqual(client.pread(4096, 0), page)
        client.shutdown()
        self.assertLess(self.stat("a")["compr_data_size"], 200)

    def test_lzo_rle_is_taken_for_lzo(self):
        self.start_new()
        if " lzo " not in self.ok("get", "a", "comp_algorithm"):
            self.skipTest("this build has no lzo")
        self.ok("set", "a", "comp_algorithm", "lzo-rle")
        self.assertEqual(self.device("a")["algo"], "lzo")
        self.ok("stop", "a")
        for args in ((), ("--size", "1M", "--nbd", "auto")):
            self.ok("start", "a", "--algo", "lzo-rle", *args)
            self.assertEqual(self.device("a")["algo"], "lzo")
            self.assertIn("[lzo]", self.ok("get", "a", "comp_algorithm"))
            self.ok("stop", "a")

    def test_without_attachments_the_best_is_made(self):
        self.start_new()
        self.ok("set", "a", "disksize", "16M")
        self.assertEqual(len(self.device("a")["attachments"]), 1)
        self.ok("set", "a", "reset", "1")

    def test_a_failed_init_leaves_the_device_as_it_was(self):
        path = os.path.join(self.temp.name, "sock")
        with open(path, "w", encoding="ascii"):
            pass
        self.start_new("--nbd", f"unix:{path}", "--algo", "zstd")
        before = self.attributes("a")
        for _ in range(2):
            self.assertIn("disksize '1M': ", self.refused(1, "set", "a", "disksize", "1M"))
            self.assertEqual(self.attributes("a"), before)
            self.assertEqual(self.device("a")["state"], "new")
        os.unlink(path)
        self.ok("set", "a", "disksize", "1M")
        self.ok("set", "a", "reset", "1")
        # Too large for memory to be reserved, or not: either way nothing is half made.
        if self.uzram("set", "a", "disksize", str(2**63 - 1)).returncode != 0:
            self.assertEqual(self.ok("get", "a", "initstate"), "0\n")
        self.ok("set", "a", "reset", "1")
        self.assertEqual(self.ok("get", "a", "disksize"), "0\n")

    def test_bad_sizes(self):
        self.start_new()
        for value in ("0", "", "1Mx", "1 M", "-1", "1M 2M", "9223372036854775808"):
            self.assertIn(f"disksize '{value}': ", self.refused(2, "set", "a", "disksize", value))
        self.ok("set", "a", "disksize", "4097")
        self.assertEqual(self.ok("get", "a", "disksize"), "8192\n")

    @unittest.skipIf(nbd is None, "needs python3-libnbd")
    def test_a_reset_is_refused_while_in_use(self):
        self.start_new("--nbd", "auto")
        self.ok("set", "a", "disksize", "16M")
        client = nbd.NBD()
        client.connect_uri(self.device("a")["attachments"][0]["where"])
        client.pwrite(b"x" * 4096, 0)
        before = self.device("a")
        self.assertIn("in use", self.refused(1, "set", "a", "reset", "1"))
        self.assertEqual(self.device("a"), before)
        self.assertEqual(client.pread(4096, 0), b"x" * 4096)
        client.shutdown()
        self.ok("set", "a", "reset", "1")
        self.ok("set", "a", "disksize", "1M")
        client = nbd.NBD()
        client.connect_uri(self.device("a")["attachments"][0]["where"])
        self.assertEqual(client.pread(4096, 0), bytes(4096))
        client.shutdown()

    def test_resets_and_inits_race(self):
        self.start_new("--nbd", "auto")
        values = [("disksize", "1M"), ("reset", "1"), ("comp_algorithm", "zstd")] * 10
        racers = [subprocess.Popen([cli_support.UZRAM, "set", "a", *value], env=self.env,
                                   stderr=subprocess.PIPE, text=True) for value in values]
        for racer in racers:
            _, error = racer.communicate(timeout=PATIENCE)
            self.assertIn(racer.returncode, (0, 1), error)
        self.ok("set", "a", "reset", "1")
        self.assertEqual(self.device("a")["state"], "new")
        self.ok("set", "a", "disksize", "1M")


class Several(CommandLine):
    def test_several_by_one_command(self):
        out = self.ok("start", "r%d.x", "--count", "4", "--size", "1M", "--type", "ram", "--nbd", "auto")
        lines = out.splitlines()
        self.assertEqual(len(lines), 4)
        for i, line in enumerate(lines):
            self.assertTrue(line.startswith("nbd\t") and f"r{i}.x" in line, line)
        self.assertEqual([(d["name"], d["state"]) for d in self.devices()],
                         [(f"r{i}.x", "running") for i in range(4)])

    def test_all_or_none(self):
        self.start("r2")
        error = self.refused(1, "start", "r%d", "--count", "4", "--size", "1M")
        self.assertIn("'r2'", error)
        self.assertEqual([d["name"] for d in self.devices()], ["r2"])
        self.assertEqual(self.device("r2")["size"], 16 << 20)

    def test_lines_that_cannot_be_printed_undo_all(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = self.uzram("start", "r%d", "--count", "3", "--size", "1M", "--nbd", "auto",
                              capture_output=False, stdout=full, stderr=subprocess.PIPE)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1))
        self.assertEqual((self.devices(), self.left()), ([], []))


if __name__ == "__main__":
    cli_support.main()
