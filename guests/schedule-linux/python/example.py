"""A control loop of 10 ms."""

import hanok_schedule


def control():
    pass


agent = hanok_schedule.Agent()
agent.declare("control", period=10_000_000, execution=3_000_000)
while True:
    control()
    hanok_schedule.next_period()
