#define _GNU_SOURCE
#include "hanok_channel.h"

#include <string.h>

enum { OWN = 3, STATE = 4, RING = 5, PENDING = 6, ENABLE = 7, PEER = 8 };

/* What was stored before is there for whoever sees a later store; a full barrier. */
static void fence(void) { __sync_synchronize(); }

unsigned hanok_channel_index(const struct hanok_channel *channel) { return channel->registers[OWN] & 0xff; }

unsigned hanok_channel_members(const struct hanok_channel *channel) { return channel->registers[OWN] >> 8 & 0xff; }

int hanok_channel_is_read_only(const struct hanok_channel *channel) { return channel->registers[OWN] >> 16 & 1; }

uint32_t hanok_channel_peer(const struct hanok_channel *channel, unsigned index) {
    return index < hanok_channel_members(channel) ? channel->registers[PEER + index] : 0;
}

void hanok_channel_set_state(const struct hanok_channel *channel, uint16_t state) {
    fence();
    channel->registers[STATE] = state;
}

void hanok_channel_ring(const struct hanok_channel *channel, unsigned index) {
    fence();
    channel->registers[RING] = index < 16 ? 1u << index : 0;
}

void hanok_channel_enable(const struct hanok_channel *channel, uint32_t events) { channel->registers[ENABLE] = events; }

uint32_t hanok_channel_take(const struct hanok_channel *channel) {
    uint32_t events = channel->registers[PENDING];
    if (events)
        channel->registers[PENDING] = events;
    fence();
    return events;
}

/* The words of a ring: how many were stored and taken, modulo 2^32, then the ring, of a power of two. */
enum { STORED, TAKEN, WORDS };

static int ring(struct hanok_ring *ring, const struct hanok_channel *channel, size_t offset, size_t bytes) {
    if (offset % 4 || offset > channel->size || bytes > channel->size - offset || bytes < 4 * (WORDS + 1))
        return HANOK_CHANNEL_TOO_LONG;
    ring->words = channel->memory + offset / 4;
    ring->len = 1;
    while (2 * (size_t)ring->len <= bytes / 4 - WORDS)
        ring->len *= 2;
    return 0;
}

/* Goes on with the own count, if the ring can hold what is between it and the other end's; otherwise anew. */
static void go_on(struct hanok_ring *ring, uint32_t stored, uint32_t taken, int own) {
    uint32_t mine = own == STORED ? stored : taken, other = own == STORED ? taken : stored;
    ring->own = stored - taken > ring->len ? other : mine;
    fence();
    ring->words[own] = ring->own;
}

int hanok_ring_sender(struct hanok_ring *ring_, const struct hanok_channel *channel, size_t offset, size_t bytes) {
    int error = ring(ring_, channel, offset, bytes);
    if (!error)
        go_on(ring_, ring_->words[STORED], ring_->words[TAKEN], STORED);
    return error;
}

int hanok_ring_receiver(struct hanok_ring *ring_, const struct hanok_channel *channel, size_t offset, size_t bytes) {
    int error = ring(ring_, channel, offset, bytes);
    if (!error)
        go_on(ring_, ring_->words[STORED], ring_->words[TAKEN], TAKEN);
    return error;
}

static volatile uint32_t *at(struct hanok_ring *ring, uint32_t word) {
    return ring->words + WORDS + (word & (ring->len - 1));
}

/* Bytes are in the order of a little-endian machine, whatever this one's. */
static void put(struct hanok_ring *ring, uint32_t word, const uint8_t *from, size_t bytes) {
    for (size_t done = 0; done < bytes; done += 4, word++) {
        uint32_t value = 0;
        for (size_t byte = 0; byte < 4 && done + byte < bytes; byte++)
            value |= (uint32_t)from[done + byte] << 8 * byte;
        *at(ring, word) = value;
    }
}

static void get(struct hanok_ring *ring, uint32_t word, uint8_t *to, size_t bytes) {
    for (size_t done = 0; done < bytes; done += 4, word++) {
        uint32_t value = *at(ring, word);
        for (size_t byte = 0; byte < 4 && done + byte < bytes; byte++)
            to[done + byte] = (uint8_t)(value >> 8 * byte);
    }
}

int hanok_ring_send(struct hanok_ring *ring, const void *message, size_t bytes) {
    if (bytes >= 4 * (size_t)ring->len)
        return HANOK_CHANNEL_TOO_LONG;
    uint32_t words = 1 + (uint32_t)((bytes + 3) / 4), used = ring->own - ring->words[TAKEN];
    if (words > ring->len)
        return HANOK_CHANNEL_TOO_LONG;
    if (used > ring->len)
        return HANOK_CHANNEL_BROKEN;
    if (words > ring->len - used)
        return HANOK_CHANNEL_LATER;
    fence();
    *at(ring, ring->own) = (uint32_t)bytes;
    put(ring, ring->own + 1, message, bytes);
    fence();
    ring->own += words;
    ring->words[STORED] = ring->own;
    return 0;
}

long hanok_ring_receive(struct hanok_ring *ring, void *buffer, size_t bytes) {
    uint32_t there = ring->words[STORED] - ring->own;
    if (there > ring->len)
        return HANOK_CHANNEL_BROKEN;
    if (!there)
        return HANOK_CHANNEL_LATER;
    fence();
    uint32_t len = *at(ring, ring->own);
    if (len >= 4 * ring->len || 1 + (len + 3) / 4 > there)
        return HANOK_CHANNEL_BROKEN;
    if (len <= bytes)
        get(ring, ring->own + 1, buffer, len);
    fence();
    ring->own += 1 + (len + 3) / 4;
    ring->words[TAKEN] = ring->own;
    return len <= bytes ? (long)len : HANOK_CHANNEL_TOO_LONG;
}

#ifndef HANOK_BARE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* Reads a property of a node; its length, or -1. */
static long property(const char *tree, const char *node, const char *name, uint8_t *value, size_t most) {
    char path[512];
    if (snprintf(path, sizeof path, "%s/%s/%s", tree, node, name) >= (int)sizeof path)
        return -1;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    long len = read(file, value, most);
    close(file);
    return len;
}

static uint64_t number(const uint8_t *bytes) {
    uint64_t value = 0;
    for (int byte = 0; byte < 8; byte++)
        value = value << 8 | bytes[byte];
    return value;
}

static void *map(int file, uint64_t at, size_t bytes, int writable) {
    void *found = mmap(NULL, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, (off_t)at);
    return found == MAP_FAILED ? NULL : found;
}

int hanok_channel_open(struct hanok_channel *channel, const char *name, const char *tree, const char *memory) {
    tree = tree ? tree : "/proc/device-tree";
    uint8_t reg[32], value[64];
    int writable = 1, found = 0;
    DIR *folder = opendir(tree);
    for (struct dirent *entry; folder && !found && (entry = readdir(folder));) {
        const char *node = entry->d_name;
        if (strncmp(node, "channel@", 8) || property(tree, node, "reg", reg, sizeof reg) != sizeof reg)
            continue;
        long len = property(tree, node, "hanok,name", value, sizeof value);
        found = len > 0 && (size_t)len == strlen(name) + 1 && !memcmp(value, name, len);
        writable = property(tree, node, "read-only", value, sizeof value) < 0;
    }
    if (folder)
        closedir(folder);
    if (!found)
        return HANOK_CHANNEL_NONE;
    int file = open(memory ? memory : "/dev/mem", O_RDWR | O_SYNC | O_CLOEXEC);
    if (file < 0)
        return HANOK_CHANNEL_MEMORY;
    channel->size = (size_t)number(reg + 24);
    channel->registers = map(file, number(reg), 4096, 1);
    channel->memory = map(file, number(reg + 16), channel->size, writable);
    close(file);
    if (channel->registers && channel->memory)
        return 0;
    hanok_channel_close(channel);
    return HANOK_CHANNEL_MEMORY;
}

void hanok_channel_close(struct hanok_channel *channel) {
    if (channel->registers)
        munmap((void *)channel->registers, 4096);
    if (channel->memory)
        munmap((void *)channel->memory, channel->size);
    memset(channel, 0, sizeof *channel);
}
#endif
