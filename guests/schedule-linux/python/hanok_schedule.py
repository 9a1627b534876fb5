"""How a program of Linux takes part in the scheduling of its VM's vCPUs: docs/real-time-guests.md.

One file, Python 3.8 or later, no other package. Times are in nanoseconds. Python's own pauses (the collector of
garbage, other threads) count to a job's execution time, and nobody knows a bound on them.
"""

import ctypes
import fcntl
import mmap
import os
import socket
import struct
import threading
import time

SOCKET = "/run/hanok-agent.sock"
(PERIOD, BUDGET, DEADLINE, LEFT, USED, EXTRA, THROTTLED, STOLEN, LIMIT, SHORTEST_PERIOD) = range(10)
ENFORCED, ASKS = 1, 2

_FEATURES, _READ, _ASK = range(0xC6000010, 0xC6000013)
_ID, _CALL, _ARGUMENTS, _STATUS, _VALUE, _SIZE = 0x00, 0x04, 0x10, 0x30, 0x38, 0x1000
_MAGIC = int.from_bytes(b"hksc", "little")
# The answer of _ASK is not there yet: the same call is made again.
_PENDING = -6
_STATUSES = {
    -1: "no hypervisor answers",
    -2: "an argument is not valid",
    -3: "the system's description does not let this vCPU ask for it",
    -4: "deadlines would be missed",
    -5: "not yet: ask again later",
}
_REFUSALS = {
    1: "more than the whole CPU would be promised",
    2: "a deadline would be missed",
    3: "a task cannot keep its deadline even alone",
    4: "nothing is proven for this kind of server",
    5: "it could not be decided in the time that such questions may take",
    6: "another question or change of this core is under way",
    7: "it would hold, but nothing is proven of the way there",
}


class Error(Exception):
    """A call that was not carried out; nothing has changed. `status` and `value` are Hanok's."""

    def __init__(self, status, value):
        text = _STATUSES.get(status, f"the hypervisor answered {status}")
        if status == -4:
            text = _REFUSALS.get(value, text)
        if status == -5:
            text += f"; ask again in {value} ns"
        super().__init__(text)
        self.status, self.value = status, value


class Missing(Exception):
    """The device is not to be had; the text says what is missing."""


class Refused(Exception):
    """The agent said no; `kind` is its word for it."""

    def __init__(self, said):
        self.kind, _, reason = said.partition(": ")
        super().__init__(reason or said)


def _contents(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def find(root="/proc/device-tree", depth=2):
    """The device's address in the tree below `root`, or None."""
    for name in sorted(os.listdir(root)):
        node = os.path.join(root, name)
        if not os.path.isdir(node):
            continue
        if b"hanok,schedule" in _contents(os.path.join(node, "compatible")).split(b"\0"):
            cells = int.from_bytes(_contents(os.path.join(root, "#address-cells")) or b"\2", "big")
            return int.from_bytes(_contents(os.path.join(node, "reg"))[: 4 * cells], "big")
        found = find(node, depth - 1) if depth > 1 else None
        if found is not None:
            return found
    return None


class _Mapped:
    """The registers in /dev/mem."""

    def __init__(self, memory="/dev/mem"):
        if not os.path.isdir("/proc/device-tree"):
            raise Missing("/proc/device-tree is missing: mount /proc; a kernel that was started by ACPI has none")
        address = find()
        if address is None:
            raise Missing('no node is compatible with "hanok,schedule": this is no VM of Hanok')
        try:
            self.file = os.open(memory, os.O_RDWR | os.O_SYNC | os.O_CLOEXEC)
        except FileNotFoundError:
            raise Missing("/dev/mem is missing: mount devtmpfs; the kernel needs CONFIG_DEVMEM") from None
        except PermissionError:
            raise Missing("/dev/mem takes root, CAP_SYS_RAWIO, and a kernel that is not locked down") from None
        try:
            self.page = mmap.mmap(self.file, _SIZE, offset=address)
        except PermissionError:
            raise Missing("a driver of the kernel has the device") from None
        # Items of an array of words are loaded and stored by one instruction each.
        self.words = (ctypes.c_uint32 * (_SIZE // 4)).from_buffer(self.page)

    def load(self, offset):
        return self.words[offset // 4]

    def store(self, offset, value):
        self.words[offset // 4] = value


class Vcpu:
    """The calls of the vCPU that the calling thread is on: `bind` first. Tests give other registers."""

    def __init__(self, registers=None):
        self.registers = registers if registers is not None else _Mapped()
        if self.registers.load(_ID) != _MAGIC:
            raise Missing("another device is at that address")

    def _call(self, function, *arguments):
        registers, file = self.registers, getattr(self.registers, "file", None)
        if file is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            for number, argument in enumerate(arguments):
                registers.store(_ARGUMENTS + 8 * number, argument & 0xFFFFFFFF)
                registers.store(_ARGUMENTS + 8 * number + 4, argument >> 32)
            status = _PENDING
            while status == _PENDING:
                registers.store(_CALL, function)
                status = struct.unpack("i", struct.pack("I", registers.load(_STATUS)))[0]
            value = registers.load(_VALUE) | registers.load(_VALUE + 4) << 32
        finally:
            if file is not None:
                fcntl.flock(file, fcntl.LOCK_UN)
        if status != 0:
            raise Error(status, value)
        return value

    def features(self):
        value = self._call(_FEATURES)
        if (value & 0xFFFFFFFF) >> 16 != 1:
            raise Missing(f"the hypervisor has version {value & 0xFFFFFFFF:#x} of the calls")
        return value >> 32

    def read(self, item):
        return self._call(_READ, item)

    def ask(self, period, budget, deadline=0):
        """Asks for another interface: the instant at which it takes effect, in nanoseconds of the board's counter."""
        return self._call(_ASK, period, budget, deadline)


def bind(cpu):
    """Keeps the calling thread on one CPU."""
    os.sched_setaffinity(0, {cpu})


def next_period():
    """Ends the job of a thread that is scheduled by its deadlines."""
    os.sched_yield()


class Agent:
    """A connection to hanok-agent. When it is closed, its tasks are taken back."""

    def __init__(self, path=SOCKET):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.lines = self.socket.makefile("r")

    def _ask(self, line):
        self.socket.sendall(line.encode() + b"\n")
        answer = self.lines.readline().rstrip("\n")
        if answer.split(" ")[0] != "yes":
            raise Refused(answer[3:] or "hanok-agent closed the connection")
        return dict(word.split("=", 1) for word in answer.split(" ")[1:])

    def declare(self, name, period, execution, deadline=0):
        """Declares the calling thread as a task: its number."""
        thread = threading.get_native_id()
        deadline = deadline or period
        said = self._ask(
            f"declare name={name} period={period} execution={execution} deadline={deadline} thread={thread}"
        )
        # A thread that is to be on another CPU is there when it has woken, and the agent schedules it then.
        end = time.monotonic() + 0.2
        while os.sched_getscheduler(0) != 6 and time.monotonic() < end:
            time.sleep(0.001)
        return int(said["id"])

    def revoke(self, task):
        self._ask(f"revoke id={task}")
