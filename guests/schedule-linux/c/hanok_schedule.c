/* See hanok_schedule.h. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "hanok_schedule.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* core/abi/src/schedule.rs. */
enum { FEATURES = 0x10, READ, ASK };
/* The answer of ASK is not there yet: the same call is made again. */
enum { PENDING = -6 };
#define FUNCTION(number) (0xc6000000u + (number))
enum { ID = 0x00, CALL = 0x04, ARGUMENTS = 0x10, STATUS = 0x30, VALUE = 0x38, SIZE = 0x1000 };
#define MAGIC 0x63736b68u /* "hksc" */

/* One instruction each, of a form that can be emulated: the compiler may choose another for volatile. */
static uint32_t load(void *context, unsigned offset)
{
    uint32_t value, *place = (uint32_t *)((char *)context + offset);
#if defined(__aarch64__)
    __asm__ volatile("ldr %w0, [%1]" : "=r"(value) : "r"(place) : "memory");
#elif defined(__arm__)
    __asm__ volatile("ldr %0, [%1]" : "=r"(value) : "r"(place) : "memory");
#else
    value = *(volatile uint32_t *)place;
#endif
    return value;
}

static void store(void *context, unsigned offset, uint32_t value)
{
    uint32_t *place = (uint32_t *)((char *)context + offset);
#if defined(__aarch64__)
    __asm__ volatile("str %w0, [%1]" : : "r"(value), "r"(place) : "memory");
#elif defined(__arm__)
    __asm__ volatile("str %0, [%1]" : : "r"(value), "r"(place) : "memory");
#else
    *(volatile uint32_t *)place = value;
#endif
}

/* Reads a file's first bytes: how many. */
static int contents(const char *folder, const char *name, unsigned char *into, int size)
{
    char path[512];
    int file, had;

    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return -1;
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    had = (int)read(file, into, (size_t)size);
    close(file);
    return had;
}

/* The address of a node that is the device; 0 if it is not. */
static uint64_t address(const char *node, const char *parent)
{
    unsigned char names[256], cells[4], reg[16];
    int length = contents(node, "compatible", names, sizeof names - 1), at, count = 2;
    uint64_t sum = 0;

    if (length <= 0)
        return 0;
    names[length] = 0;
    for (at = 0; at < length; at += (int)strlen((char *)names + at) + 1)
        if (strcmp((char *)names + at, "hanok,schedule") == 0)
            break;
    if (at >= length)
        return 0;
    if (contents(parent, "#address-cells", cells, 4) == 4 && cells[3] == 1)
        count = 1;
    if (contents(node, "reg", reg, sizeof reg) < 4 * count)
        return 0;
    for (at = 0; at < 4 * count; at++)
        sum = sum << 8 | reg[at];
    return sum;
}

static uint64_t find(const char *folder, int depth)
{
    DIR *open = opendir(folder);
    struct dirent *entry;
    uint64_t found = 0;
    char node[512];

    while (open && !found && (entry = readdir(open))) {
        if (entry->d_name[0] == '.' || entry->d_type == DT_REG)
            continue;
        if (snprintf(node, sizeof node, "%s/%s", folder, entry->d_name) >= (int)sizeof node)
            continue;
        found = address(node, folder);
        if (!found && depth > 1)
            found = find(node, depth - 1);
    }
    if (open)
        closedir(open);
    return found;
}

int hanok_open(struct hanok_vcpu *vcpu)
{
    const char *tree = "/proc/device-tree";
    uint64_t at;
    void *page;

    if (access(tree, R_OK) != 0)
        return HANOK_NO_TREE;
    at = find(tree, 2);
    if (!at)
        return HANOK_NO_NODE;
    vcpu->file = open("/dev/mem", O_RDWR | O_SYNC | O_CLOEXEC);
    if (vcpu->file < 0)
        return errno == ENOENT || errno == ENXIO ? HANOK_NO_MEMORY
             : errno == EACCES                   ? HANOK_NOT_ROOT
             : errno == EPERM                    ? HANOK_FORBIDDEN
                                                 : HANOK_OTHER;
    page = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu->file, (off_t)at);
    if (page == MAP_FAILED) {
        int error = errno == EPERM ? HANOK_CLAIMED : HANOK_OTHER;
        close(vcpu->file);
        return error;
    }
    vcpu->load = load;
    vcpu->store = store;
    vcpu->context = page;
    if (vcpu->load(page, ID) != MAGIC) {
        hanok_close(vcpu);
        return HANOK_ANOTHER;
    }
    return 0;
}

void hanok_close(struct hanok_vcpu *vcpu)
{
    munmap(vcpu->context, SIZE);
    close(vcpu->file);
}

/* The registers are a vCPU's: the lock keeps other programs out of the way. */
static int call(struct hanok_vcpu *vcpu, uint32_t function, const uint64_t *arguments, unsigned count, uint64_t *value)
{
    int status;
    unsigned at;

    if (vcpu->file >= 0)
        flock(vcpu->file, LOCK_EX);
    for (at = 0; at < count; at++) {
        vcpu->store(vcpu->context, ARGUMENTS + 8 * at, (uint32_t)arguments[at]);
        vcpu->store(vcpu->context, ARGUMENTS + 8 * at + 4, (uint32_t)(arguments[at] >> 32));
    }
    do {
        vcpu->store(vcpu->context, CALL, FUNCTION(function));
        status = (int)vcpu->load(vcpu->context, STATUS);
    } while (status == PENDING);
    if (value) {
        *value = vcpu->load(vcpu->context, VALUE);
        *value |= (uint64_t)vcpu->load(vcpu->context, VALUE + 4) << 32;
    }
    if (vcpu->file >= 0)
        flock(vcpu->file, LOCK_UN);
    return status > 0 ? HANOK_OTHER : status;
}

int hanok_features(struct hanok_vcpu *vcpu)
{
    uint64_t value;
    int status = call(vcpu, FEATURES, NULL, 0, &value);

    if (status < 0)
        return status;
    return (uint32_t)value >> 16 == 1 ? (int)(value >> 32) : HANOK_ABSENT;
}

int hanok_read(struct hanok_vcpu *vcpu, unsigned item, uint64_t *value)
{
    uint64_t arguments[] = {item};
    return call(vcpu, READ, arguments, 1, value);
}

int hanok_ask(struct hanok_vcpu *vcpu, uint64_t period, uint64_t budget, uint64_t deadline, uint64_t *value)
{
    uint64_t arguments[] = {period, budget, deadline};
    return call(vcpu, ASK, arguments, 3, value);
}

int hanok_bind(unsigned cpu)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0 ? 0 : HANOK_OTHER;
}

/* struct sched_attr, its first version; C libraries lack it. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};
enum { USUAL = 0, BY_DEADLINE = 6, RESET_ON_FORK = 1 };

#ifndef SYS_sched_setattr
#if defined(__aarch64__)
#define SYS_sched_setattr 274
#define SYS_sched_getattr 275
#elif defined(__arm__)
#define SYS_sched_setattr 380
#define SYS_sched_getattr 381
#endif
#endif

int hanok_become_periodic(const struct hanok_task *task)
{
    struct attributes wanted = {sizeof wanted, BY_DEADLINE, RESET_ON_FORK, 0, 0, 0, 0, 0};

    wanted.runtime = task->execution;
    wanted.deadline = task->deadline ? task->deadline : task->period;
    wanted.period = task->period;
    if (syscall(SYS_sched_setattr, 0, &wanted, 0) == 0)
        return 0;
    return errno == EBUSY                     ? HANOK_ADMISSION
         : errno == EPERM                     ? HANOK_PERMISSION
         : errno == EINVAL || errno == E2BIG ? HANOK_TIMES
                                              : HANOK_OTHER;
}

void hanok_next_period(void)
{
    sched_yield();
}

int hanok_become_usual(void)
{
    struct attributes usual = {sizeof usual, USUAL, 0, 0, 0, 0, 0, 0};
    return syscall(SYS_sched_setattr, 0, &usual, 0) == 0 ? 0 : HANOK_OTHER;
}

uint64_t hanok_cpu_time(void)
{
    struct timespec time = {0, 0};

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

int hanok_agent_connect(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int agent;

    path = path ? path : "/run/hanok-agent.sock";
    if (strlen(path) >= sizeof at.sun_path)
        return HANOK_NO_AGENT;
    strcpy(at.sun_path, path);
    agent = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (agent < 0)
        return HANOK_NO_AGENT;
    if (connect(agent, (struct sockaddr *)&at, sizeof at) != 0) {
        close(agent);
        return HANOK_NO_AGENT;
    }
    return agent;
}

/* Asks, and waits for the line that answers. */
static int ask(int agent, const char *line, char *answer, unsigned size)
{
    unsigned had = 0;
    char byte;

    if (send(agent, line, strlen(line), MSG_NOSIGNAL) != (ssize_t)strlen(line))
        return HANOK_NO_AGENT;
    for (;;) {
        ssize_t came = read(agent, &byte, 1);
        if (came < 0 && errno == EINTR)
            continue;
        if (came != 1)
            return HANOK_NO_AGENT;
        if (byte == '\n')
            break;
        if (had + 1 < size)
            answer[had++] = byte;
    }
    answer[had] = 0;
    return strncmp(answer, "yes", 3) == 0 ? 0 : HANOK_DENIED;
}

/* A thread that is to be on another CPU is there when it has woken, and the agent schedules it then. */
static void wait_until_scheduled(void)
{
    struct attributes now = {0, 0, 0, 0, 0, 0, 0, 0};
    struct timespec look = {0, 1000000};
    int at;

    for (at = 0; at < 200; at++) {
        if (syscall(SYS_sched_getattr, 0, &now, sizeof now, 0) == 0 && now.policy == BY_DEADLINE)
            return;
        nanosleep(&look, NULL);
    }
}

int hanok_agent_declare(int agent, const char *name, const struct hanok_task *task, char *text, unsigned size)
{
    char line[256], answer[256], *id;
    int length, status;

    length = snprintf(line, sizeof line, "declare name=%s period=%llu execution=%llu deadline=%llu thread=%ld\n", name,
                      (unsigned long long)task->period, (unsigned long long)task->execution,
                      (unsigned long long)(task->deadline ? task->deadline : task->period), (long)syscall(SYS_gettid));
    if (length < 0 || length >= (int)sizeof line)
        return HANOK_INVALID;
    status = ask(agent, line, answer, sizeof answer);
    if (status != 0 && size > 0)
        snprintf(text, size, "%s", strstr(answer, ": ") ? strstr(answer, ": ") + 2 : answer);
    if (status != 0)
        return status;
    id = strstr(answer, "id=");
    if (!id)
        return HANOK_NO_AGENT;
    wait_until_scheduled();
    return atoi(id + 3);
}

int hanok_agent_revoke(int agent, int task)
{
    char line[64], answer[256];

    snprintf(line, sizeof line, "revoke id=%d\n", task);
    return ask(agent, line, answer, sizeof answer);
}

const char *hanok_error(int error)
{
    switch (error) {
    case HANOK_ABSENT: return "no hypervisor answers, or one of another version";
    case HANOK_INVALID: return "an argument is not valid";
    case HANOK_NOT_ALLOWED: return "the system's description does not let this vCPU ask for it";
    case HANOK_REFUSED: return "deadlines would be missed";
    case HANOK_LATER: return "not yet: ask again later";
    case HANOK_NO_TREE: return "/proc/device-tree is missing: mount /proc; a kernel that was started by ACPI has none";
    case HANOK_NO_NODE: return "no node is compatible with \"hanok,schedule\": this is no VM of Hanok";
    case HANOK_NO_MEMORY: return "/dev/mem is missing: mount devtmpfs; the kernel needs CONFIG_DEVMEM";
    case HANOK_NOT_ROOT: return "/dev/mem may be opened by root alone";
    case HANOK_FORBIDDEN: return "/dev/mem is forbidden even to this root: no CAP_SYS_RAWIO, or a kernel that is locked down";
    case HANOK_CLAIMED: return "a driver of the kernel has the device";
    case HANOK_ANOTHER: return "another device is at that address";
    case HANOK_NO_AGENT: return "hanok-agent does not answer";
    case HANOK_DENIED: return "hanok-agent said no";
    case HANOK_ADMISSION: return "Linux admits no more: /proc/sys/kernel/sched_rt_runtime_us bounds the tasks of its CPUs";
    case HANOK_PERMISSION: return "it takes CAP_SYS_NICE, and a thread that may be on all CPUs of its exclusive cpuset";
    case HANOK_TIMES: return "1024 ns <= execution <= deadline <= period is wanted, and a period from 100 us to 4.19 s";
    default: return error >= 0 ? "no error" : strerror(errno);
    }
}

const char *hanok_refusal(uint64_t value)
{
    static const char *const reasons[] = {
        "an unknown reason",
        "more than the whole CPU would be promised",
        "a deadline would be missed",
        "a task cannot keep its deadline even alone",
        "nothing is proven for this kind of server",
        "it could not be decided in the time that such questions may take",
        "an unknown reason",
        "it would hold, but nothing is proven of the way there",
    };
    return reasons[value < sizeof reasons / sizeof *reasons ? value : 0];
}
