/* Finds a channel in a tree of files and maps it from a file: first argument the tree, second the memory. */
#include "hanok_channel.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

int main(int count, char **words) {
    struct hanok_channel channel, none;
    assert(count == 3);
    assert(hanok_channel_open(&none, "other", words[1], words[2]) == HANOK_CHANNEL_NONE);
    assert(hanok_channel_open(&none, "sensor", words[1], "/nowhere") == HANOK_CHANNEL_MEMORY);
    assert(!hanok_channel_open(&channel, "sensor", words[1], words[2]));
    assert(hanok_channel_index(&channel) == 1 && hanok_channel_members(&channel) == 2);
    assert(!hanok_channel_is_read_only(&channel) && channel.size == 8192);
    assert(hanok_channel_peer(&channel, 0) == 0x50001 && hanok_channel_peer(&channel, 2) == 0);
    hanok_channel_set_state(&channel, 7);
    hanok_channel_ring(&channel, 0);
    hanok_channel_enable(&channel, 3);
    assert(channel.registers[4] == 7 && channel.registers[5] == 1 && channel.registers[7] == 3);
    channel.registers[6] = 9;
    assert(hanok_channel_take(&channel) == 9);

    struct hanok_ring sender, receiver;
    assert(hanok_ring_sender(&sender, &channel, 8192, 64) == HANOK_CHANNEL_TOO_LONG);
    assert(hanok_ring_sender(&sender, &channel, 2, 64) == HANOK_CHANNEL_TOO_LONG);
    /* The Rust side left a message there. */
    assert(!hanok_ring_receiver(&receiver, &channel, 4096, 4 * (2 + 16)));
    char buffer[64] = {0};
    assert(hanok_ring_receive(&receiver, buffer, sizeof buffer) == 9 && !strcmp(buffer, "from Rust"));
    assert(hanok_ring_receive(&receiver, buffer, sizeof buffer) == HANOK_CHANNEL_LATER);
    assert(!hanok_ring_sender(&sender, &channel, 0, 4 * (2 + 16)));
    assert(!hanok_ring_receiver(&receiver, &channel, 0, 4 * (2 + 16)));
    assert(hanok_ring_send(&sender, buffer, 61) == HANOK_CHANNEL_TOO_LONG);
    for (int number = 0; number < 200; number++) {
        char message[32], back[32];
        int len = snprintf(message, sizeof message, "%.*s", number % 25, "abcdefghijklmnopqrstuvwxyz");
        assert(!hanok_ring_send(&sender, message, len));
        assert(hanok_ring_receive(&receiver, back, sizeof back) == len && !memcmp(message, back, len));
    }
    assert(!hanok_ring_send(&sender, "long", 4));
    assert(hanok_ring_receive(&receiver, buffer, 3) == HANOK_CHANNEL_TOO_LONG);
    /* Nonsense of the peer's. */
    for (uint32_t value = 1; value; value <<= 1) {
        channel.memory[0] = sender.own + value;
        channel.memory[2 + (receiver.own & 15)] = value;
        long got = hanok_ring_receive(&receiver, buffer, sizeof buffer);
        assert(got < 0 || got <= 60);
    }
    assert(!hanok_ring_sender(&sender, &channel, 0, 4 * (2 + 16)));
    assert(!hanok_ring_receiver(&receiver, &channel, 0, 4 * (2 + 16)));
    assert(!hanok_ring_send(&sender, "from C", 6));
    puts("c: all as wanted");
    return 0;
}
