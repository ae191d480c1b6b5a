#!/usr/bin/python3
"""Devices with a loop device, by the command line: in use, forced, killed.

    cli_loop_test.py UZRAM
"""

import os
import sys

import cli_support
from cli_support import CommandLine


class Loop(CommandLine):
    def start_loop(self, *args):
        lines = self.start("a", *args)
        return next(where for kind, where in lines if kind == "loop")

    def test_a_loop_device_comes_and_goes(self):
        lines = self.start("a", "--nbd", "auto", "--loop")
        self.assertEqual([kind for kind, _ in lines], ["nbd", "loop"])
        loop = lines[1][1]
        self.assertRegex(loop, r"^/dev/loop\d+$")
        with open(loop, "r+b", buffering=0) as disk:
            disk.write(b"uzram!!!" * 512)
            os.fsync(disk.fileno())
        self.assertEqual(self.stat("a")["orig_data_size"], 4096)
        self.ok("stop", "a")
        self.assertEqual((self.devices(), self.left()), ([], []))

    def test_auto_chooses_a_block_device_where_there_can_be_one(self):
        self.assertEqual([kind for kind, _ in self.start("a", "--attach", "auto")], ["loop"])
        self.ok("stop", "a")
        self.assertEqual([kind for kind, _ in self.start("a", "--attach", "auto", "--loop")],
                         ["loop"])

    def test_what_is_in_use_is_stopped_only_by_force(self):
        loop = self.start_loop("--nbd", "auto", "--loop")
        with open(loop, "rb", buffering=0) as disk:
            for args in (["stop", "a"], ["detach", "a", "loop"], ["reset", "a"]):
                self.refused(1, *args)
                self.assertEqual(len(self.device("a")["attachments"]), 2, args)
            self.assertEqual(disk.read(4096), bytes(4096))
            self.ok("stop", "a", "--force")
            self.assertEqual((self.devices(), self.left()), ([], []))

    def test_attach_and_detach_while_live(self):
        self.start("a")
        kind, loop = self.ok("attach", "a", "loop").rstrip("\n").split("\t")
        self.assertEqual(kind, "loop")
        with open(loop, "r+b", buffering=0) as disk:
            disk.write(b"x" * 4096)
        self.ok("detach", "a", "loop")
        self.assertEqual(self.device("a")["attachments"], [])
        self.assertEqual(self.stat("a")["orig_data_size"], 4096)
        self.ok("attach", "a", "loop")

    def test_a_killed_device_leaves_nothing_behind(self):
        for clear in (["stop", "a"], ["start", "a", "--size", "16M"]):
            loop = self.start_loop("--loop")
            mount = os.path.join(self.run_dir, "a.loop")
            self.assertTrue(os.path.ismount(mount))
            self.kill(self.device("a")["pid"])
            self.assertEqual(self.device("a")["state"], "dead")
            self.ok(*clear)
            self.assertFalse(os.path.lexists(mount))
            number = os.path.basename(loop)
            self.assertFalse(os.path.exists(f"/sys/block/{number}/loop/backing_file"))
            self.uzram("stop", "a")


if __name__ == "__main__":
    if os.geteuid() != 0 or not all(map(os.path.exists, ("/dev/loop-control", "/dev/fuse"))):
        print("skipped: cli_loop_test needs root, /dev/loop-control and /dev/fuse")
        sys.exit(77)
    cli_support.main()
