/* A control loop of 10 ms: cc -O2 example.c hanok_schedule.c -o example */
#include "hanok_schedule.h"

#include <stdio.h>

static void control(void) {}

int main(void)
{
    struct hanok_task task = {.period = 10000000, .execution = 1500000};
    char reason[200] = "";
    int agent = hanok_agent_connect(NULL), id;

    if (agent < 0) {
        fprintf(stderr, "%s\n", hanok_error(agent));
        return 1;
    }
    id = hanok_agent_declare(agent, "control", &task, reason, sizeof reason);
    if (id < 0) {
        fprintf(stderr, "%s: %s\n", hanok_error(id), reason);
        return 1;
    }
    for (;;) {
        control();
        hanok_next_period();
    }
}
