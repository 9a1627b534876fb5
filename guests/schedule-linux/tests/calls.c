/* The calls of C against registers that a few lines of the test answer. The argument is an agent's socket. */
#include "hanok_schedule.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static uint32_t registers[16];
static uint64_t asked[4];
static int pending = 3;

static uint32_t load(void *context, unsigned offset)
{
    (void)context;
    return registers[offset / 4];
}

static void store(void *context, unsigned offset, uint32_t value)
{
    uint64_t result = 0;
    int status = 0;
    unsigned at;

    (void)context;
    registers[offset / 4] = value;
    if (offset != 4)
        return;
    for (at = 0; at < 4; at++)
        asked[at] = registers[4 + 2 * at] | (uint64_t)registers[5 + 2 * at] << 32;
    switch (value) {
    case 0xc6000010: result = 3ull << 32 | 0x10000; break;
    case 0xc6000011: result = 1ull << 40 | asked[0]; break;
    case 0xc6000012:
        /* PENDING, a few times; then yes, or a refusal whose reason is the budget. */
        status = pending-- > 0 ? -6 : asked[1] > 9 ? 0 : asked[1] > 7 ? HANOK_LATER : HANOK_REFUSED;
        result = status == HANOK_REFUSED ? asked[1] : 77;
        break;
    default: status = HANOK_ABSENT;
    }
    registers[12] = (uint32_t)status;
    registers[14] = (uint32_t)result;
    registers[15] = (uint32_t)(result >> 32);
}

int main(int count, char **arguments)
{
    struct hanok_vcpu vcpu = {load, store, NULL, -1};
    struct hanok_task task = {20000000, 2000000, 0};
    uint64_t value;
    char text[100] = "";
    int agent;

    assert(hanok_features(&vcpu) == (HANOK_ENFORCED | HANOK_ASKS));
    assert(hanok_read(&vcpu, HANOK_STOLEN, &value) == 0 && value == (1ull << 40 | 7));
    assert(hanok_ask(&vcpu, 5000000000, 6000000000, 0, &value) == 0 && value == 77);
    assert(asked[0] == 5000000000 && asked[1] == 6000000000 && asked[2] == 0 && pending == -1);
    assert(hanok_ask(&vcpu, 1, 8, 1, &value) == HANOK_LATER);
    assert(hanok_ask(&vcpu, 1, 2, 1, &value) == HANOK_REFUSED);
    assert(strcmp(hanok_refusal(value), "a deadline would be missed") == 0);
    assert(hanok_ask(&vcpu, 1, 7, 1, &value) == HANOK_REFUSED);
    assert(strcmp(hanok_refusal(value), "it would hold, but nothing is proven of the way there") == 0);
    assert(strcmp(hanok_refusal(8), "an unknown reason") == 0);
    assert(hanok_cpu_time() > 0);

    assert(count == 2);
    assert(hanok_agent_connect("/nowhere") == HANOK_NO_AGENT);
    agent = hanok_agent_connect(arguments[1]);
    assert(agent >= 0);
    assert(hanok_agent_declare(agent, "one", &task, text, sizeof text) == 7);
    assert(hanok_agent_declare(agent, "two", &task, text, sizeof text) == HANOK_DENIED);
    assert(strcmp(text, "too much") == 0);
    assert(hanok_agent_revoke(agent, 7) == 0);
    puts("c: all as wanted");
    return 0;
}
