#!/usr/bin/python3
"""Runs every profile of `uzram bench` tiny and checks its results and refusals.

    bench_smoke.py UZRAM
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

UZRAM = ""
SIZE = 8 << 20
PROFILES = ["seq-write", "rand-write", "seq-read", "rand-read", "mixed-seq", "mixed-rand", "verify"]
FIELDS = {
    "profile", "type", "algo", "level", "size", "threads", "batch", "record", "seconds", "seed",
    "data", "floor", "iops", "bytes_per_s", "lat_us", "cpu", "cpu_us_per_request",
    "ctx_voluntary", "ctx_involuntary", "floor_iops", "floor_ratio", "floor_cpu_us_per_request",
    "rounds", "requests", "elapsed_s", "orig_data_size",
    "compr_data_size", "mem_used_total", "rss_bytes"}


class Bench(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="uzram-bench-")
        self.addCleanup(self.directory.cleanup)

    def path(self, name):
        return os.path.join(self.directory.name, name)

    def run_bench(self, *arguments):
        return subprocess.run([UZRAM, "bench", *arguments], capture_output=True, text=True,
                              timeout=120, check=False)

    def runs(self, profile, *options, size=SIZE):
        """The runs of a successful command, after checks that hold for every run."""
        path = self.path("out.json")
        done = self.run_bench(profile, "--size", str(size), "--json", path, *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""), (profile, options))
        with open(path, encoding="utf-8") as file:
            runs = json.load(file)
        rows = done.stdout.splitlines()
        self.assertEqual([row.split()[0] for row in rows[2:]], [run["profile"] for run in runs])
        for run in runs:
            self.assertEqual(set(run), FIELDS)
            self.check_figures(run)
        return runs

    def check_figures(self, run):
        self.assertGreater(run["iops"], 0)
        self.assertAlmostEqual(run["bytes_per_s"], run["iops"] * run["record"], delta=1)
        latency = run["lat_us"]
        self.assertLessEqual(latency["p50"], latency["p99"])
        self.assertLessEqual(latency["p99"], latency["p999"])
        self.assertLessEqual(latency["p999"], latency["max"])
        self.assertGreater(latency["samples"], 0)
        for name in ("usr_pct", "sys_pct"):
            self.assertGreaterEqual(run["cpu"][name], 0)
        for name in ("ctx_voluntary", "ctx_involuntary", "compr_data_size", "mem_used_total"):
            self.assertGreaterEqual(run[name], 0)
        self.assertGreaterEqual(run["rss_bytes"], run["mem_used_total"] / 2)
        records = run["size"] // run["record"]
        if run["seconds"] == 0:
            passes = 2 if run["profile"] == "verify" else len(run["rounds"])
            self.assertEqual(run["requests"], records * passes)
        if records * run["record"] == run["size"]:
            self.assertEqual(run["orig_data_size"], run["size"])

    def refused(self, status, *arguments):
        done = self.run_bench(*arguments)
        self.assertEqual(done.returncode, status, (arguments, done.stderr))
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"\Auzram: .+: .+\n\Z")
        return done.stderr

    def test_all_runs_each_profile(self):
        runs = self.runs("all")
        self.assertEqual([run["profile"] for run in runs], PROFILES)
        for run in runs:
            self.assertEqual((run["type"], run["algo"], run["data"]), ("zram", "lz4", "half"))
            self.assertIsNone(run["floor_iops"])
            self.assertAlmostEqual(run["compr_data_size"] / run["orig_data_size"], 0.5, delta=0.02)

    def test_threads_and_batches(self):
        for run in self.runs("all", "--threads", "3", "--batch", "32", "--record", "8K"):
            self.assertEqual((run["threads"], run["batch"], run["record"]), (3, 32, 8192))

    def test_ram(self):
        for run in self.runs("all", "--type", "ram", "--floor"):
            self.assertIsNone(run["algo"])
            self.assertEqual(run["floor_iops"] is None, run["profile"] == "verify")

    def test_floor(self):
        for run in self.runs("all", "--floor", "--batch", "8"):
            if run["profile"] == "verify":
                self.assertIsNone(run["floor_ratio"])
                continue
            self.assertEqual(len(run["rounds"]), 3)
            self.assertAlmostEqual(run["floor_ratio"], run["iops"] / run["floor_iops"], places=6)

    def test_time(self):
        (run,) = self.runs("mixed-rand", "--seconds", "1", "--threads", "2")
        self.assertGreaterEqual(run["elapsed_s"], 0.99)
        self.assertGreater(run["requests"], SIZE // 4096)

    def test_codecs(self):
        listed = self.refused(2, "verify", "--algo", "none").split(": not one of ")[1].split()
        self.assertIn("lz4", listed)
        for codec in listed:
            (run,) = self.runs("verify", "--algo", codec)
            self.assertEqual(run["algo"], codec)

    def test_data(self):
        (zero,) = self.runs("rand-read", "--data", "zero")
        self.assertLess(zero["mem_used_total"], SIZE // 8)
        (random,) = self.runs("rand-read", "--data", "random")
        self.assertEqual(random["compr_data_size"], SIZE)
        (file,) = self.runs("rand-read", "--data", "file:" + UZRAM)
        self.assertEqual(file["data"], "file:" + UZRAM)
        self.assertLess(file["compr_data_size"], SIZE)

    def test_sustained_incompressible(self):
        """Small, unaligned and whole-page random writes of what does not shrink, over and over."""
        size = 32 << 20
        for record in ("512", "4K", "5000"):
            (run,) = self.runs("verify", "--data", "random", "--record", record, "--seconds", "2",
                               "--threads", "4", "--batch", "32", size=size)
            # The pool takes memory 2 MiB at a time.
            self.assertLessEqual(run["mem_used_total"], 1.05 * size + (4 << 20), record)

    def test_refusals(self):
        for option, values in {
                "--size": ["0", "-1", "1e3", "4 KiB", "16E", "0x", "", "17T", "4095"],
                "--threads": ["0", "257", "-1", "two", ""],
                "--batch": ["0", "1025", "1K", ""],
                "--record": ["0", "511", "5M", "4KiB", ""],
                "--seconds": ["-1", "86401", "0.5", ""],
                "--seed": ["-1", "x", "9223372036854775808"],
                "--algo": ["", "lz77"],
                "--level": ["0", "x", "99999999999", ""],
                "--type": ["", "disk"],
                "--data": ["", "halves", "file:"]}.items():
            for value in values:
                self.refused(2, "rand-read", f"{option}={value}")
        self.refused(2, "rand-read", "--size", "8K", "--threads", "3")
        self.refused(2, "rand-read", "--record", "512", "--floor")
        self.refused(2, "rand-read", "--type", "ram", "--algo", "lz4")
        self.refused(2, "rand-read", "--size", "16T", "--record", "4M", "--batch", "1024")
        self.refused(2)
        self.refused(2, "none")
        self.refused(2, "rand-read", "verify")
        self.refused(2, "rand-read", "--data", "file:" + self.directory.name)
        self.refused(1, "rand-read", "--data", "file:" + self.path("missing"))
        self.refused(1, "rand-read", "--json", self.path("missing/out.json"))

    def test_more_than_the_machine_has_is_refused(self):
        done = self.run_bench("rand-read", "--size", "16T", "--data", "random")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\Auzram: size 16\.0T: these pages need .*\n\Z")

    def test_json_replaces_a_longer_file(self):
        with open(self.path("out.json"), "w", encoding="utf-8") as file:
            file.write("x" * 100000)
        self.runs("seq-write")


if __name__ == "__main__":
    UZRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
