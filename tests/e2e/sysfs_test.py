#!/usr/bin/python3
"""The sysfs-shaped tree, mounted: files and errors, devices that come, go and hang, its own end.

    sysfs_test.py UZRAM
"""

import errno
import os
import signal
import stat
import subprocess
import sys

import cli_support
from cli_support import PATIENCE, CommandLine


class Tree(CommandLine):
    def setUp(self):
        super().setUp()
        self.root = os.path.join(self.temp.name, "sys")
        os.mkdir(self.root)
        # Before the devices are stopped: nothing of the tree may be in their way.
        self.addCleanup(self.unmount)

    def unmount(self):
        while os.path.ismount(self.root) or self.is_stale():
            subprocess.run(["umount", "-l", self.root], check=True)

    def is_stale(self):
        try:
            os.stat(self.root)
        except OSError as error:
            return error.errno == errno.ENOTCONN
        return False

    def mount(self):
        self.assertEqual(self.ok("sysfs", self.root), "")
        self.assertTrue(os.path.ismount(self.root))

    def mount_in_foreground(self):
        process = subprocess.Popen([cli_support.UZRAM, "sysfs", self.root, "--foreground"],
                                   env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, start_new_session=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        while not os.path.ismount(self.root):
            self.assertIsNone(process.poll())
        return process

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    def read(self, *parts):
        with open(self.path(*parts), encoding="ascii") as file:
            return file.read()

    def write(self, value, *parts):
        """One write to the file, as a shell would do it; the name of its error, or None."""
        try:
            file = os.open(self.path(*parts), os.O_WRONLY | os.O_TRUNC)
        except OSError as error:
            return errno.errorcode[error.errno]
        try:
            self.assertEqual(os.write(file, value.encode()), len(value))
        except OSError as error:
            return errno.errorcode[error.errno]
        finally:
            os.close(file)
        return None

    def hot_add(self):
        return self.read("class/zram-control/hot_add")

    def hot_remove(self, number):
        return self.write(f"{number}\n", "class/zram-control/hot_remove")

    def test_the_life_of_a_device(self):
        self.mount()
        self.assertEqual(os.listdir(self.path("block")), [])
        self.assertEqual([self.hot_add(), self.hot_add()], ["0\n", "1\n"])
        self.assertEqual(sorted(os.listdir(self.path("block"))), ["zram0", "zram1"])
        self.assertEqual(self.device("zram1")["state"], "new")
        block = "block/zram1"
        self.assertEqual(self.read(block, "initstate"), "0\n")
        self.assertEqual(self.write("zstd\n", block, "comp_algorithm"), None)
        self.assertEqual(self.write("8M\n", block, "mem_limit"), None)
        self.assertEqual(self.write("16M\n", block, "disksize"), None)
        self.assertIn("[zstd]", self.read(block, "comp_algorithm"))
        self.assertEqual(self.read(block, "disksize"), f"{16 << 20}\n")
        self.assertEqual(self.read(block, "size"), f"{(16 << 20) // 512}\n")
        self.assertEqual(self.read(block, "queue/logical_block_size"), "4096\n")
        device = os.path.realpath(self.path("dev/zram1"))
        number = os.stat(device).st_rdev
        self.assertEqual(self.read(block, "dev"), f"{os.major(number)}:{os.minor(number)}\n")
        with open(device, "r+b", buffering=0) as disk:
            disk.write(b"uzram!!!" * 512)
            os.fsync(disk.fileno())
            self.assertEqual(self.write("1", block, "reset"), "EBUSY")
            self.assertEqual(self.hot_remove(1), "EBUSY")
        self.assertEqual(self.read(block, "mm_stat").split()[0], "4096")
        columns = self.read(block, "stat").split()
        self.assertEqual(len(columns), 17)
        self.assertGreater(int(columns[6]), 0)
        self.assertEqual(self.write("1\n", block, "reset"), None)
        self.assertEqual(self.read(block, "initstate"), "0\n")
        self.assertEqual(self.hot_remove(0), None)
        self.assertEqual(self.hot_add(), "0\n", "the lowest free number")
        self.assertEqual([self.hot_remove(n) for n in (0, 1)], [None, None])
        self.assertEqual(os.listdir(self.path("block")), [])
        self.assertEqual(self.left(), [])

    def test_errors(self):
        self.mount()
        self.hot_add()
        block = "block/zram0"
        for value, name, expected in [
                ("0", "disksize", "EINVAL"), ("1Mx", "disksize", "EINVAL"), ("0", "reset", "EINVAL"),
                ("nosuch", "comp_algorithm", "EINVAL"), ("x=1", "algorithm_params", "EINVAL"),
                ("1", "compact", "EINVAL"), ("1", "mem_used_max", "EINVAL"),
                ("x" * 4097, "mem_limit", "EINVAL"), ("1", "mm_stat", "EACCES"),
                ("1", "size", "EACCES"), ("1", "nosuch", "ENOENT")]:
            self.assertEqual(self.write(value, block, name), expected, (value[:10], name))
        self.assertEqual(self.write("1M", block, "disksize"), None)
        for value, name, expected in [("1M", "disksize", "EBUSY"), ("lz4", "comp_algorithm", "EBUSY"),
                                      ("level=1", "algorithm_params", "EBUSY"),
                                      ("1", "compact", None), ("0", "mem_used_max", None)]:
            self.assertEqual(self.write(value, block, name), expected, (value, name))
        for value, expected in [("x", "EINVAL"), ("-1", "EINVAL"), ("", "EINVAL"), ("7", "ENODEV")]:
            self.assertEqual(self.hot_remove(value), expected, value)
        for name in ("reset", "compact"):
            with self.assertRaises(PermissionError):
                self.read(block, name)
        with self.assertRaises(PermissionError):
            os.open(self.path(block, "new"), os.O_WRONLY | os.O_CREAT)
        for name, mode in [("mm_stat", 0o444), ("disksize", 0o644), ("reset", 0o200)]:
            self.assertEqual(stat.S_IMODE(os.stat(self.path(block, name)).st_mode), mode, name)
        self.assertEqual(self.hot_remove(0), None)

    def test_a_file_read_in_pieces_is_of_one_moment(self):
        self.mount()
        self.assertEqual(subprocess.run(["cat", self.path("class/zram-control/hot_add")],
                                        capture_output=True, check=True).stdout, b"0\n")
        self.assertEqual(len(self.devices()), 1, "cat reads until nothing comes")
        file = os.open(self.path("block/zram0/mm_stat"), os.O_RDONLY)
        text = b"".join(iter(lambda: os.read(file, 3), b""))
        self.assertEqual(text, b"0 0 0 0 0 0 0 0 0\n")
        self.assertEqual(self.write("1M", "block/zram0/mem_limit"), None)
        self.assertEqual(os.pread(file, 100, 0), b"0 0 0 1048576 0 0 0 0 0\n")
        os.close(file)

    def test_all_devices_of_the_runtime_directory_are_there(self):
        self.mount()
        self.start("other", "--nbd", "auto", "--read-only", "--block-size", "512")
        self.assertEqual(os.listdir(self.path("block")), ["other"])
        self.assertEqual(self.read("block/other/ro"), "1\n")
        self.assertEqual(self.read("block/other/queue/logical_block_size"), "512\n")
        self.assertEqual(os.listdir(self.path("dev")), [], "a socket is no path to a disk")
        self.assertFalse(os.path.exists(self.path("block/other/dev")))
        self.ok("stop", "other")
        self.assertEqual(os.listdir(self.path("block")), [])

    def test_a_process_that_hangs_costs_its_own_files(self):
        self.mount()
        self.hot_add()
        self.hot_add()
        pid = self.device("zram0")["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            reader = subprocess.Popen(["cat", self.path("block/zram0/mm_stat")],
                                      stderr=subprocess.PIPE)
            self.assertEqual(self.read("block/zram1/initstate"), "0\n")
            self.assertEqual(sorted(os.listdir(self.path("block"))), ["zram0", "zram1"])
            _, error = reader.communicate(timeout=PATIENCE)
            self.assertIn(b"Input/output error", error)
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual(self.read("block/zram0/initstate"), "0\n")

    def test_a_killed_device_leaves_the_tree_and_is_cleared_by_it(self):
        self.mount()
        self.hot_add()
        self.assertEqual(self.write("16M", "block/zram0/disksize"), None)
        file = os.open(self.path("block/zram0/mm_stat"), os.O_RDONLY)
        self.kill(self.device("zram0")["pid"])
        with self.assertRaises(OSError):
            os.read(file, 100)
        os.close(file)
        self.assertEqual(os.listdir(self.path("block")), [])
        self.assertEqual(self.hot_add(), "1\n", "what the dead one left is still there")
        self.assertEqual([self.hot_remove(n) for n in (0, 1)], [None, None])
        self.assertEqual(self.left(), [])

    def test_it_ends_by_signals_and_by_umount(self):
        self.start("a")
        for end in (lambda p: p.send_signal(signal.SIGTERM), lambda p: p.send_signal(signal.SIGINT),
                    lambda p: subprocess.run(["umount", self.root], check=True)):
            process = self.mount_in_foreground()
            self.assertIn("[lz4]", self.read("block/a/comp_algorithm"))
            end(process)
            out, error = process.communicate(timeout=PATIENCE)
            self.assertEqual((process.returncode, out, error), (0, "", ""))
            self.assertFalse(os.path.ismount(self.root))
        self.assertEqual(self.device("a")["state"], "running", "devices live on")

    def test_it_ends_while_a_device_hangs_and_a_file_is_open(self):
        self.start("a")
        process = self.mount_in_foreground()
        kept = os.open(self.path("block/a/mm_stat"), os.O_RDONLY)
        pid = self.device("a")["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            writer = subprocess.Popen(["sh", "-c", f"echo 1 >{self.path('block/a/compact')}"],
                                      stderr=subprocess.DEVNULL)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=PATIENCE), 0)
            self.assertNotEqual(writer.wait(timeout=PATIENCE), None)
        finally:
            os.kill(pid, signal.SIGCONT)
        os.close(kept)
        self.assertFalse(os.path.ismount(self.root))

    def test_killed_it_leaves_a_mount_that_umount_clears(self):
        self.start("a")
        process = self.mount_in_foreground()
        process.kill()
        process.wait(timeout=PATIENCE)
        self.assertIn("unmount it first", self.refused(1, "sysfs", self.root))
        subprocess.run(["umount", self.root], check=True)
        self.assertEqual(self.device("a")["state"], "running")
        self.mount()
        self.assertEqual(os.listdir(self.path("block")), ["a"])

    # 20,000 lines of 40 bytes: many times what the control socket takes at once.
    def test_a_long_file_is_read_in_parts(self):
        self.mount()
        self.ok("start", "a", "--size", "128M", "--loop")
        with open(os.path.realpath(self.path("dev/a")), "r+b", buffering=0) as disk:
            for _ in range(20):
                disk.write(b"uzram!!!" * 512 * 1000)
            os.fsync(disk.fileno())
        # When a page was last used is told from its age, to a second.
        states = [(page, f"{flags}") for page, _, flags in
                  map(str.split, self.ok("get", "a", "block_state").splitlines())]
        self.assertEqual(states, [(str(page), "s.....") for page in range(20000)])
        file = os.open(self.path("block/a/block_state"), os.O_RDONLY)
        self.addCleanup(os.close, file)
        text = b""
        while chunk := os.read(file, 10007):
            text += chunk
        self.assertEqual([(line.split()[0], line.split()[2]) for line in text.decode().splitlines()],
                         states)
        for page in (19999, 19000, 3, 10000, 0):
            self.assertEqual(os.pread(file, 13, page * 40), f"{page:12} ".encode())
        self.assertEqual(os.pread(file, 40, 20000 * 40), b"")
        self.assertEqual(self.read("block/a/block_state").count("\n"), 20000)

    def test_write_back_by_the_kernels_files(self):
        self.mount()
        self.ok("start", "a")
        block = "block/a"
        store = os.path.join(self.temp.name, "store")
        with open(store, "wb") as file:
            file.truncate(1 << 20)
        self.assertEqual(self.read(block, "backing_dev"), "none\n")
        self.assertEqual(self.write("idle\n", block, "writeback"), "EINVAL")
        self.assertEqual(self.write(store + ".none\n", block, "backing_dev"), "ENOENT")
        self.assertEqual(self.write(store + "\n", block, "backing_dev"), None)
        self.assertEqual(self.write("0\n", block, "writeback_batch_size"), "EINVAL")
        self.assertEqual(self.write("16M\n", block, "disksize"), None)
        self.assertEqual(self.write("none\n", block, "backing_dev"), "EBUSY")
        self.assertEqual(self.write("1\n", block, "compressed_writeback"), "EBUSY")
        # As long as a write to the kernel's file can be, and taken to its last page.
        pages = " ".join(f"page_index={page}" for page in range(1000, 3000))[:4095]
        pages = pages[:pages.rindex(" ")]
        self.assertEqual(self.write(pages.ljust(4095) + "\n", block, "writeback"), None)
        self.assertEqual(self.write(f"{pages} page_index=4096"[-4095:].partition(" ")[2],
                                    block, "writeback"), "ERANGE")
        self.assertEqual(self.read(block, "bd_stat"), "0 0 0\n")
        self.ok("start", "b", "--size", "1M", "--nbd", "auto")
        self.assertEqual(self.write("idle\n", "block/b", "writeback"), "ENODEV")

    def test_mount_points_that_will_not_do(self):
        plain = os.path.join(self.temp.name, "plain")
        with open(plain, "w", encoding="ascii"):
            pass
        self.refused(2, "sysfs", plain)
        self.refused(1, "sysfs", self.path("nosuch"))
        self.refused(2, "sysfs")


if __name__ == "__main__":
    if os.geteuid() != 0 or not all(map(os.path.exists, ("/dev/loop-control", "/dev/fuse"))):
        print("skipped: sysfs_test needs root, /dev/loop-control and /dev/fuse")
        sys.exit(77)
    cli_support.main()
