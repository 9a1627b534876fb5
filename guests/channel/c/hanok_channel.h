/* Channels between VMs: doorbells, and messages by shared memory: docs/channels.md.
 *
 * One header and one C file (C99), with the functions of the Rust crate hanok-channel. hanok_channel_open() is for programs of
 * Linux; on bare metal, fill struct hanok_channel in by hand and define HANOK_BARE.
 *
 * A peer is not trusted: each index and length in the memory is loaded once, and compared with what it may be. All memory is
 * accessed by aligned words of 32 bits, as Linux's /dev/mem maps it as Device memory, where others fault. */
#ifndef HANOK_CHANNEL_H
#define HANOK_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    HANOK_CHANNEL_LATER = -1,    /* no room now, or no message */
    HANOK_CHANNEL_TOO_LONG = -2, /* longer than the ring, or than the buffer (then it is dropped) */
    HANOK_CHANNEL_BROKEN = -3,   /* the peer does not keep to the rules */
    HANOK_CHANNEL_NONE = -4,     /* the device tree has no channel of this name */
    HANOK_CHANNEL_MEMORY = -5    /* /dev/mem cannot be opened or mapped: see errno */
};

/* A channel. */
struct hanok_channel {
    volatile uint32_t *registers;
    volatile uint32_t *memory;
    size_t size; /* bytes of the memory */
};

/* One end of a ring of messages from one member to another, in a part of the memory. */
struct hanok_ring {
    volatile uint32_t *words;
    uint32_t len, own;
};

#ifndef HANOK_BARE
/* Finds the channel and maps it. `tree` and `memory` are NULL for /proc/device-tree and /dev/mem. 0, or an error. */
int hanok_channel_open(struct hanok_channel *channel, const char *name, const char *tree, const char *memory);
void hanok_channel_close(struct hanok_channel *channel);
#endif

unsigned hanok_channel_index(const struct hanok_channel *channel);
unsigned hanok_channel_members(const struct hanok_channel *channel);
int hanok_channel_is_read_only(const struct hanok_channel *channel);
/* The state of a member in the low half, its generation in the high half; 0 for no member. */
uint32_t hanok_channel_peer(const struct hanok_channel *channel, unsigned index);
void hanok_channel_set_state(const struct hanok_channel *channel, uint16_t state);
/* Rings a member. What was stored before is there for it. */
void hanok_channel_ring(const struct hanok_channel *channel, unsigned index);
/* Which events raise the interrupt: bit n, member n rings; bit 16 + n, its state changes. */
void hanok_channel_enable(const struct hanok_channel *channel, uint32_t events);
/* Takes the events since the last call, and acknowledges them. */
uint32_t hanok_channel_take(const struct hanok_channel *channel);

/* Begins to send or to receive in the `bytes` bytes at `offset` of the memory, where another end of the same kind may have been before. 0, or
 * HANOK_CHANNEL_TOO_LONG where that is no part of the memory. */
int hanok_ring_sender(struct hanok_ring *ring, const struct hanok_channel *channel, size_t offset, size_t bytes);
int hanok_ring_receiver(struct hanok_ring *ring, const struct hanok_channel *channel, size_t offset, size_t bytes);
/* 0, or an error. */
int hanok_ring_send(struct hanok_ring *ring, const void *message, size_t bytes);
/* The bytes of the message, or an error. */
long hanok_ring_receive(struct hanok_ring *ring, void *buffer, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
