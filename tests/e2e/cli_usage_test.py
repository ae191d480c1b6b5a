#!/usr/bin/python3
"""What the command line answers to wrong usage, and its help.

    cli_usage_test.py UZRAM
"""

import cli_support
from cli_support import CommandLine

COMMANDS = ["start", "stop", "reset", "list", "stat", "get", "set", "idle",
            "recompress", "writeback", "compact", "attach", "detach", "sysfs", "bench"]
TOO_LARGE = ["9223372036854775808", "8388608T", "18446744073709551616", "9" * 40 + "T"]
NOT_A_SIZE = ["-1", "+1", "1e3", "4 KiB", "4KiB", "16E", "0x", "0x10", "", " 1", "1 ", "1.5G", "K",
              "1\n2", "-x", "--"]


class Usage(CommandLine):
    def test_bad_sizes_name_value_and_rule(self):
        for value, rule in ([(v, "not a size") for v in NOT_A_SIZE] +
                            [(v, "larger than 9223372036854775807") for v in TOO_LARGE] +
                            [("0", "at least 1 byte"), ("0G", "at least 1 byte")]):
            shown = value.replace("\n", "\\x0a")
            for option in ("--size", "--mem-limit"):
                if option == "--mem-limit" and rule == "at least 1 byte":
                    continue
                forms = [[f"{option}={value}"]]
                if not value.startswith("-") or value == "-1":
                    forms.append([option, value])
                for form in forms:
                    size = [] if option == "--size" else ["--size", "1M"]
                    error = self.refused(2, "start", "a", *size, *form)
                    self.assertIn(f"{option} '{shown}': ", error)
                    self.assertIn(rule, error)
        self.assertEqual(self.left(), [])

    def test_sizes_are_rounded_up_to_a_page(self):
        for value, size in [("1", 4096), ("511", 4096), ("4096", 4096), ("4097", 8192),
                            ("1048577", 1052672), ("1k", 4096), ("9223372036854775807", 2**63 - 1)]:
            self.ok("start", "a", "--size", value)
            self.assertEqual(self.device("a")["size"], size, value)
            self.assertEqual(self.ok("get", "a", "disksize"), f"{size}\n")
            self.ok("stop", "a")

    def test_the_limit_may_exceed_the_size(self):
        self.ok("start", "a", "--size", "1M", "--mem-limit", "1G")
        self.assertEqual(self.ok("get", "a", "mem_limit"), f"{1 << 30}\n")

    def test_codecs_and_levels(self):
        error = self.refused(2, "start", "a", "--size", "1M", "--algo", "nosuch")
        for part in ("'nosuch'", "lz4", "zstd", "deflate"):
            self.assertIn(part, error)
        error = self.refused(2, "start", "a", "--size", "1M", "--algo", "zstd", "--level", "1000")
        self.assertRegex(error, r"1000.*\d+")
        for level in ("x", "", "1.5", "99999999999"):
            self.assertIn(f"--level '{level}'",
                          self.refused(2, "start", "a", "--size", "1M", f"--level={level}"))
        self.refused(2, "start", "a", "--size", "1M", "--type", "ram", "--algo", "lz4")
        self.refused(2, "start", "a", "--size", "1M", "--type", "ram", "--level", "1")
        self.assertEqual(self.left(), [])

    def test_names(self):
        for name in ("", ".", "..", ".a", "-a", "a/b", "../a", "a b", "a\n", "\u00e4", "a" * 65):
            for command in (["start", "--size", "1M"], ["stop"], ["stat"], ["reset"]):
                error = self.refused(2, *command, "--", name)
                self.assertIn("must be 1 to 64", error)
        for name in ("list", "a" * 64, "A.b_c-9"):
            self.ok("start", name, "--size", "1M")
            self.ok("stop", name)

    def test_every_wrong_usage_is_one_line_and_status_2(self):
        for args in ([], ["nosuch"], ["--bogus"], ["-x"], ["start"],
                     ["start", "--size", "1M"], ["start", "a", "--size"],
                     ["start", "a", "b", "--size", "1M"], ["start", "a", "--size", "1M", "--bogus"],
                     ["start", "a", "--size", "1M", "--size", "2M"],
                     ["start", "a", "--size", "1M", "--loop=5"],
                     ["start", "a", "--size", "1M", "--json"], ["list", "x"], ["stat"],
                     ["get", "a"], ["get"], ["set", "a", "mem_limit"], ["set", "a"], ["attach", "a"],
                     ["detach", "a"], ["stop"], ["stop", "a", "b"], ["reset"],
                     ["attach", "a", "usb"], ["attach", "a", "loop:x"], ["attach", "a", "nbd:x"],
                     ["start", "a", "--size", "1M", "--type", "disk"],
                     ["start", "a", "--size", "1M", "--block-size", "1024"],
                     ["start", "a", "--size", "1M", "--block-size", ""],
                     ["start", "a", "--size", "1M", "--attach", "best"],
                     ["start", "a", "--count", "2"], ["start", "a%d", "--count", "0"],
                     ["start", "a%d", "--count", "1025"], ["start", "a%d", "--count", "x"],
                     ["start", "a%d%d", "--count", "2"], ["start", "a%d"], ["start", "a%s", "--count", "2"],
                     ["start", "a%d", "--count", "2", "--foreground"],
                     ["start", "a", "--size", "1M", "--backing="],
                     ["start", "a", "--size", "1M", "--backing"],
                     ["start", "a", "--size", "1M", "--backing", "http://example.org/"],
                     ["start", "a", "--size", "1M", "--type", "ram", "--backing", "/dev/null"],
                     ["start", "a%d", "--count", "2", "--backing", "/dev/null"],
                     ["writeback"],
                     ["start", "a", "--size", "1M", "--nbd", "x"],
                     ["start", "a", "--size", "1M", "--nbd="],
                     ["start", "a", "--size", "1M", "--nbd", "unix:"],
                     ["start", "a", "--size", "1M", "--nbd", "unix:/" + "x" * 200],
                     ["start", "a", "--size", "1M", "--nbd", "tcp:127.0.0.1:99999"]):
            self.refused(2, *args)
        self.assertEqual(self.left(), [])
        self.assertIn("'nosuch'", self.refused(2, "nosuch"))

    def test_a_device_that_is_not_there_fails(self):
        for args in (["stop", "a"], ["reset", "a"], ["stat", "a"], ["get", "a", "mm_stat"],
                     ["set", "a", "mem_limit", "1M"], ["attach", "a", "nbd"],
                     ["detach", "a", "nbd"]):
            self.assertIn("'a': no such device", self.refused(1, *args))
            self.assertFalse(self.left())

    def test_help(self):
        top = self.ok("--help")
        for command in COMMANDS:
            self.assertIn(f"\n  {command} ", top)
            text = self.ok(command, "--help")
            self.assertIn(f"Usage: uzram {command}", text)
            for later in ("--ublk", "--image", "--queues", "--poll-us"):
                self.assertNotIn(later, text)
        self.assertIn("mem_used_total", self.ok("get", "--help"))
        self.assertRegex(self.ok("--version"), r"^uzram \d+\.\d+\.\d+\n$")

    def test_output_that_cannot_be_written_fails(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            for args in (["--help"], ["list"], ["list", "--json"]):
                done = self.uzram(*args, capture_output=False, stdout=full,
                                  stderr=cli_support.subprocess.PIPE)
                self.assertEqual(done.returncode, 1, args)
                self.assertIn("standard output", done.stderr)


if __name__ == "__main__":
    cli_support.main()
