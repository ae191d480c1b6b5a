#!/usr/bin/python3
"""The life of a device's process: start, use, stop, and everything that can go wrong between.

    cli_life_test.py UZRAM
"""

import json
import os
import re
import signal
import socket
import subprocess
import threading
import unittest

import cli_support
from cli_support import PATIENCE, CommandLine

try:
    import nbd
except ImportError:
    nbd = None


def open_nbd(uri):
    client = nbd.NBD()
    client.connect_uri(uri)
    return client


class Life(CommandLine):
    def test_from_start_to_stop(self):
        self.assertEqual(self.devices(), [])
        [[kind, where]] = self.start("a", "--algo", "zstd", "--mem-limit", "8M", "--nbd", "auto")
        self.assertEqual(kind, "nbd")
        device = self.device("a")
        self.assertEqual({key: device[key] for key in ("name", "state", "type", "algo", "size")},
                         {"name": "a", "state": "running", "type": "zram", "algo": "zstd",
                          "size": 16 << 20})
        self.assertEqual(device["attachments"],
                         [{"kind": "nbd", "where": where, "argument": "auto"}])
        self.assertEqual(os.stat(self.run_dir).st_mode & 0o777, 0o700)
        self.assertEqual(os.stat(os.path.join(self.run_dir, "a.sock")).st_mode & 0o777, 0o600)
        self.assertRegex(self.ok("list"), r"(?m)^a +\d+ +running +zram +zstd +16\.0M +nbd")
        stat = self.stat("a")
        self.assertEqual((stat["orig_data_size"], stat["mem_limit"]), (0, 8 << 20))
        self.assertIn("mem_used_total", self.ok("stat", "a"))
        self.assertEqual(self.ok("get", "a", "mm_stat").split()[3], str(8 << 20))
        self.assertIn("[zstd]", self.ok("get", "a", "comp_algorithm"))
        self.assertEqual(self.ok("stop", "a"), "")
        self.assertEqual((self.devices(), self.left()), ([], []))
        self.wait_for_end(device["pid"])

    def test_attributes(self):
        self.start("a")
        self.assertEqual(self.ok("set", "a", "mem_limit", "4097"), "")
        self.assertEqual(self.ok("get", "a", "mem_limit"), "8192\n")
        for value in ("-1", "1e3", "", "x"):
            self.assertIn(f"'{value}'", self.refused(2, "set", "a", "mem_limit", value))
        self.assertEqual(self.ok("get", "a", "mem_limit"), "8192\n")
        self.ok("set", "a", "mem_used_max", "0")
        self.ok("set", "a", "compact", "1")
        self.refused(2, "set", "a", "reset", "0")
        self.refused(2, "set", "a", "mem_used_max", "7")
        self.refused(1, "set", "a", "disksize", "1G")
        self.refused(1, "set", "a", "comp_algorithm", "lz4")
        self.refused(1, "set", "a", "mm_stat", "1")
        self.refused(1, "get", "a", "reset")
        self.assertIn("mm_stat", self.refused(2, "get", "a", "nosuch"))

    def test_a_second_instance_is_refused_without_harm(self):
        [[_, where]] = self.start("a", "--nbd", "auto")
        before = self.device("a")
        for extra in ([], ["--foreground"], ["--nbd", "auto"]):
            self.assertIn("'a': is running already",
                          self.refused(1, "start", "a", "--size", "1M", *extra))
        self.assertEqual(self.device("a"), before)
        self.assertEqual(before["attachments"][0]["where"], where)
        self.ok("stat", "a")

    def test_of_concurrent_starts_one_wins(self):
        for _ in range(5):
            racers = [subprocess.Popen([cli_support.UZRAM, "start", "a", "--size", "1M"],
                                       env=self.env, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True) for _ in range(6)]
            results = []
            for racer in racers:
                _, error = racer.communicate(timeout=PATIENCE)
                results.append((racer.returncode, error))
            self.assertEqual(sorted(code for code, _ in results), [0] + 5 * [1], results)
            self.assertEqual([device["state"] for device in self.devices()], ["running"])
            self.ok("stop", "a")
            self.assertEqual(self.left(), [])

    def test_starts_and_stops_in_a_row_meet_no_leftover(self):
        for _ in range(20):
            self.start("a", "--nbd", "auto")
            self.ok("stop", "a")

    def test_a_killed_device_is_dead_until_cleared(self):
        [[_, where]] = self.start("a", "--nbd", "auto")
        self.kill(self.device("a")["pid"])
        device = self.device("a")
        self.assertEqual((device["state"], device["type"], device["size"]),
                         ("dead", "zram", 16 << 20))
        self.assertEqual([a["where"] for a in device["attachments"]], [where])
        self.assertRegex(self.ok("list"), r"(?m)^a .* dead ")
        for args in (["stat", "a"], ["get", "a", "mm_stat"], ["reset", "a"], ["attach", "a", "nbd"]):
            self.assertIn("is dead", self.refused(1, *args))
        self.ok("stop", "a")
        self.assertEqual((self.devices(), self.left()), ([], []))

    def test_clearing_takes_the_sockets_of_the_dead_alone(self):
        dead = os.path.join(self.temp.name, "dead socket")
        self.start("a", "--nbd", f"unix:{dead}")
        self.kill(self.device("a")["pid"])
        self.assertTrue(os.path.exists(dead))
        self.ok("stop", "a")
        self.assertFalse(os.path.exists(dead))

        self.start("a", "--nbd", f"unix:{dead}")
        self.kill(self.device("a")["pid"])
        self.start("b", "--nbd", f"unix:{dead}")
        self.ok("stop", "a")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(dead)

    def test_a_killed_device_can_be_started_again(self):
        for _ in range(3):
            self.start("a", "--nbd", "auto")
            self.kill(self.device("a")["pid"])
        self.start("a", "--nbd", "auto")
        self.assertEqual(self.device("a")["state"], "running")
        self.ok("stop", "a")
        self.assertEqual(self.left(), [])

    def test_a_device_that_only_left_its_lock_is_cleared_too(self):
        os.mkdir(self.run_dir, 0o700)
        with open(os.path.join(self.run_dir, "a.lock"), "w", encoding="ascii"):
            pass
        self.assertEqual(self.device("a")["state"], "dead")
        self.ok("stop", "a")
        self.assertEqual(self.left(), [])

    def test_signals(self):
        for how in (signal.SIGTERM, signal.SIGINT):
            self.start("a", "--nbd", "auto")
            pid = self.device("a")["pid"]
            for ignored in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH,
                            signal.SIGPIPE):
                for _ in range(20):
                    os.kill(pid, ignored)
                self.assertEqual(self.device("a")["state"], "running")
            self.ok("stat", "a")
            os.kill(pid, how)
            self.kill(pid, how)
            self.assertEqual((self.devices(), self.left()), ([], []))

    def test_foreground(self):
        for how in (signal.SIGTERM, signal.SIGINT):
            with subprocess.Popen([cli_support.UZRAM, "start", "a", "--size", "1M", "--nbd", "auto",
                                   "--foreground"], env=self.env, text=True, start_new_session=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                self.assertRegex(process.stdout.readline(), "^nbd\tnbd\\+unix:")
                self.assertEqual(self.device("a")["pid"], process.pid)
                process.send_signal(how)
                process.send_signal(how)
                out, error = process.communicate(timeout=PATIENCE)
                self.assertEqual((process.returncode, out, error), (0, "", ""))
            self.assertEqual(self.left(), [])

    def test_foreground_ends_with_stop(self):
        with subprocess.Popen([cli_support.UZRAM, "start", "a", "--size", "1M", "--nbd", "auto",
                               "--foreground"], env=self.env, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            self.ok("stop", "a")
            self.assertEqual(process.wait(timeout=PATIENCE), 0)

    def test_the_process_leaves_its_starter(self):
        kept = os.open("/dev/null", os.O_RDONLY)
        os.set_inheritable(kept, True)
        self.start("a")
        self.ok("start", "b", "--size", "1M", pass_fds=[kept])
        os.close(kept)
        for name in ("a", "b"):
            pid = self.device(name)["pid"]
            self.assertEqual(os.readlink(f"/proc/{pid}/cwd"), "/")
            self.assertEqual(os.getsid(pid), pid)
            fds = {int(fd): os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
            self.assertEqual([fds[fd] for fd in (0, 1, 2)], 3 * ["/dev/null"])
            for fd, target in fds.items():
                if fd > 2:
                    self.assertRegex(target, rf"/{name}\.lock$|^socket:|^anon_inode:|^/dev/null$|memfd")
        self.assertLessEqual(len(os.listdir(f"/proc/{self.device('b')['pid']}/fd")), 12)

    def test_standard_descriptors_may_be_closed(self):
        for closed in ([0], [0, 1, 2]):
            done = subprocess.run(
                [cli_support.UZRAM, "start", "a", "--size", "1M"], env=self.env, check=False,
                timeout=PATIENCE, preexec_fn=lambda fds=closed: [os.close(fd) for fd in fds])
            self.assertEqual(done.returncode, 0)
            self.assertEqual(self.device("a")["state"], "running")
            self.ok("stop", "a")
        done = subprocess.run([cli_support.UZRAM, "list"], env=self.env, check=False,
                              stderr=subprocess.PIPE, preexec_fn=lambda: os.close(1))
        self.assertEqual(done.returncode, 1)


class Failures(CommandLine):
    def test_runtime_directories_that_will_not_do(self):
        os.mkdir(self.run_dir, 0o700)
        link = os.path.join(self.temp.name, "link")
        os.symlink(self.run_dir, link)
        loose = os.path.join(self.temp.name, "loose")
        os.mkdir(loose)
        os.chmod(loose, 0o770)
        plain = os.path.join(self.temp.name, "plain")
        with open(plain, "w", encoding="ascii"):
            pass
        for path in (link, link + "/", loose, plain, "/nonexistent/dir", "/proc/uzram"):
            self.env["UZRAM_RUNTIME_DIR"] = path
            self.refused(1, "start", "a", "--size", "1M")
        self.env["UZRAM_RUNTIME_DIR"] = self.run_dir
        self.assertEqual((self.left(), os.listdir(loose)), ([], []))

    def test_a_runtime_directory_too_long_for_sockets(self):
        self.env["UZRAM_RUNTIME_DIR"] = deep = os.path.join(self.temp.name, "x" * 100)
        self.assertIn("107", self.refused(2, "start", "a", "--size", "1M"))
        self.assertEqual(os.listdir(deep), [])

    def test_an_attachment_that_fails_leaves_nothing(self):
        taken = os.path.join(self.temp.name, "taken")
        with open(taken, "w", encoding="ascii") as file:
            file.write("kept")
        live = os.path.join(self.temp.name, "live")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(live)
            listener.listen()
            for address in (f"unix:{taken}", f"unix:{live}", "unix:/nonexistent/x",
                            "tcp:192.0.2.1:10809"):
                self.refused(1, "start", "a", "--size", "1M", "--nbd", address)
                self.assertEqual((self.devices(), self.left()), ([], []), address)
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(live)
        with open(taken, encoding="ascii") as file:
            self.assertEqual(file.read(), "kept")

    def test_lines_that_cannot_be_printed_undo_the_start(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            for extra in ([], ["--foreground"]):
                done = self.uzram("start", "a", "--size", "1M", "--nbd", "auto", *extra,
                                  capture_output=False, stdout=full, stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, 1)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertEqual((self.devices(), self.left()), ([], []))
        reader, writer = os.pipe()
        os.close(reader)
        done = self.uzram("start", "a", "--size", "1M", "--nbd", "auto", capture_output=False,
                          stdout=writer, stderr=subprocess.PIPE)
        os.close(writer)
        self.assertEqual(done.returncode, 1)
        self.assertEqual((self.devices(), self.left()), ([], []))

    def test_a_starter_that_is_killed_takes_the_device_with_it(self):
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        try:
            while True:
                os.write(writer, b"x" * 65536)
        except BlockingIOError:
            os.set_blocking(writer, True)
        starter = subprocess.Popen(
            [cli_support.UZRAM, "start", "a", "--size", "1M", "--nbd", "auto"], env=self.env,
            stdout=writer)
        while not any(device["attachments"] for device in self.devices()):
            self.assertIsNone(starter.poll())
        pid = self.device("a")["pid"]
        self.assertIsNone(starter.poll(), "it waits for room to print its line")
        starter.kill()
        starter.wait()
        self.wait_for_end(pid)
        self.assertEqual((self.devices(), self.left()), ([], []))
        os.close(reader)
        os.close(writer)

    def test_a_foreign_thing_in_place_of_the_socket(self):
        os.makedirs(os.path.join(self.run_dir, "a.sock"), 0o700)
        os.chmod(self.run_dir, 0o700)
        self.refused(1, "start", "a", "--size", "1M")
        self.assertEqual(self.left(), ["a.sock"])

    def test_records_that_are_damaged(self):
        self.start("a")
        with open(os.path.join(self.run_dir, "a.json"), "w", encoding="ascii") as record:
            record.write("{")
        self.assertEqual(self.device("a")["state"], "starting")
        self.ok("list")
        self.ok("stop", "a")
        self.assertEqual(self.left(), [])

    def test_silent_control_clients_harm_nobody(self):
        self.start("a")
        path = os.path.join(self.run_dir, "a.sock")
        silent = [socket.socket(socket.AF_UNIX) for _ in range(40)]
        for client in silent:
            client.connect(path)
        self.ok("stat", "a")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.sendall(b'{"jsonrpc":"2.0","id":1,"method":"device.info"}\n')
            self.assertEqual(json.loads(client.makefile().readline())["result"]["name"], "a")
        self.ok("stop", "a")
        for client in silent:
            client.close()


@unittest.skipIf(nbd is None, "the tests of NBD clients need python3-libnbd")
class Clients(CommandLine):
    def test_attach_and_detach_while_live(self):
        self.assertEqual(self.start("a"), [])
        self.assertEqual(self.device("a")["attachments"], [])
        kind, where = self.ok("attach", "a", "nbd").rstrip("\n").split("\t")
        self.assertEqual(kind, "nbd")
        client = open_nbd(where)
        client.pwrite(b"uzram" * 1000, 0)
        self.assertEqual(self.stat("a")["clients"], 1)
        client.shutdown()
        self.assertIn("attached already", self.refused(1, "attach", "a", "nbd:tcp:127.0.0.1:0"))
        self.ok("detach", "a", "nbd")
        self.assertEqual(self.device("a")["attachments"], [])
        self.assertIn("not attached", self.refused(1, "detach", "a", "nbd"))
        self.refused(1, "detach", "a", "nosuch")
        _, where = self.ok("attach", "a", "nbd:tcp:127.0.0.1:0").rstrip("\n").split("\t")
        client = open_nbd(where)
        self.assertEqual(client.pread(10, 0), b"uzramuzram")
        client.shutdown()
        path = os.path.join(self.temp.name, "relative.sock")
        self.ok("detach", "a", "nbd")
        self.ok("attach", "a", "nbd:unix:relative.sock", cwd=self.temp.name)
        self.assertTrue(os.path.exists(path))
        self.ok("stop", "a")
        self.assertFalse(os.path.exists(path))

    def test_reset_is_refused_while_in_use(self):
        [[_, where]] = self.start("a", "--nbd", "auto")
        client = open_nbd(where)
        client.pwrite(b"x" * 4096, 0)
        self.assertIn("in use", self.refused(1, "reset", "a"))
        self.assertIn("in use", self.refused(1, "set", "a", "reset", "1"))
        self.assertEqual(client.pread(4096, 0), b"x" * 4096)
        self.ok("reset", "a", "--force")
        self.assertEqual(client.pread(4096, 0), bytes(4096))
        client.pwrite(b"y" * 4096, 0)
        client.shutdown()
        self.ok("reset", "a")
        self.assertEqual(self.stat("a")["orig_data_size"], 0)

    def test_reset_gets_through_between_probers(self):
        [[_, where]] = self.start("a", "--nbd", "auto")
        leave = threading.Event()

        def probe():
            while not leave.wait(0.001):
                try:
                    open_nbd(where).shutdown()
                except nbd.Error:
                    return

        prober = threading.Thread(target=probe)
        prober.start()
        try:
            for _ in range(10):
                self.ok("reset", "a")
            # The kernel's reset ends the attachment, too: the prober meets nobody from then on.
            self.ok("set", "a", "reset", "1")
        finally:
            leave.set()
            prober.join()

    def test_stop_and_signals_with_clients_connected(self):
        for end in (lambda pid: self.ok("stop", "a"), lambda pid: self.kill(pid, signal.SIGTERM)):
            [[_, where]] = self.start("a", "--nbd", "auto")
            client = open_nbd(where)
            client.pwrite(b"x" * 4096, 0)
            path = re.search("socket=(.*)$", where).group(1)
            half_open = [socket.socket(socket.AF_UNIX) for _ in range(20)]
            for sleeper in half_open:
                sleeper.connect(path)
            end(self.device("a")["pid"])
            self.assertEqual((self.devices(), self.left()), ([], []))
            for sleeper in half_open:
                sleeper.close()

    def test_read_only(self):
        [[_, where]] = self.start("a", "--nbd", "auto", "--read-only")
        client = open_nbd(where)
        self.assertTrue(client.is_read_only())
        self.assertTrue(self.device("a")["read_only"])


if __name__ == "__main__":
    cli_support.main()
