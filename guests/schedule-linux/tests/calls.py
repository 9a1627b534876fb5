"""The calls of Python against registers that a few lines of the test answer. The argument is an agent's socket."""

import sys

import hanok_schedule


class Registers:
    def __init__(self):
        self.words = {0: int.from_bytes(b"hksc", "little")}
        self.pending = 3

    def load(self, offset):
        return self.words.get(offset, 0)

    def store(self, offset, value):
        assert 0 <= value < 1 << 32
        self.words[offset] = value
        if offset != 4:
            return
        pair = lambda at: self.load(at) | self.load(at + 4) << 32
        self.asked = [pair(0x10 + 8 * number) for number in range(4)]
        status, result = {
            0xC6000010: (0, 3 << 32 | 0x10000),
            0xC6000011: (0, 1 << 40 | self.asked[0]),
            # A refusal's reason is the budget.
            0xC6000012: (0, 77) if self.asked[1] > 9 else (-4, self.asked[1]),
        }[value]
        if value == 0xC6000012 and self.pending > 0:
            self.pending -= 1
            status, result = -6, 0
        self.words[0x30] = status & 0xFFFFFFFF
        self.words[0x38], self.words[0x3C] = result & 0xFFFFFFFF, result >> 32


registers = Registers()
vcpu = hanok_schedule.Vcpu(registers)
assert vcpu.features() == hanok_schedule.ENFORCED | hanok_schedule.ASKS
assert vcpu.read(hanok_schedule.STOLEN) == 1 << 40 | 7
assert vcpu.ask(5_000_000_000, 6_000_000_000) == 77
assert registers.asked[:3] == [5_000_000_000, 6_000_000_000, 0]
assert registers.pending == 0
for reason, text in [(2, "a deadline would be missed"), (7, "it would hold, but nothing is proven of the way there")]:
    try:
        vcpu.ask(20_000_000, reason)
        raise SystemExit("it was not refused")
    except hanok_schedule.Error as error:
        assert str(error) == text, error

agent = hanok_schedule.Agent(sys.argv[1])
assert agent.declare("one", 20_000_000, 2_000_000) == 7
try:
    agent.declare("two", 20_000_000, 2_000_000)
    raise SystemExit("it was not refused")
except hanok_schedule.Refused as refused:
    assert (refused.kind, str(refused)) == ("refused", "too much"), refused
agent.revoke(7)
print("python: all as wanted")
