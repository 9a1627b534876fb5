/* How a program of Linux takes part in the scheduling of its VM's vCPUs: docs/real-time-guests.md.
 *
 * One header and one C file (C99, no other library), with the same functions as the Rust crate hanok-schedule-linux.
 * Times are in nanoseconds. Functions return 0 (or a value that is not negative), or an error below 0, of which
 * hanok_error() tells the meaning. */
#ifndef HANOK_SCHEDULE_H
#define HANOK_SCHEDULE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What Hanok answers. */
enum {
    HANOK_ABSENT = -1,      /* nothing knows the call */
    HANOK_INVALID = -2,     /* an argument is not valid */
    HANOK_NOT_ALLOWED = -3, /* the system's description does not let the vCPU ask for it */
    HANOK_REFUSED = -4,     /* deadlines would be missed: the value is a reason, see hanok_refusal() */
    HANOK_LATER = -5,       /* ask again in as many nanoseconds as the value says: asked too often, or the core is busy */
    /* What went wrong on the way. */
    HANOK_NO_TREE = -100,   /* no /proc/device-tree */
    HANOK_NO_NODE = -101,   /* no node "hanok,schedule": no VM of Hanok */
    HANOK_NO_MEMORY = -102, /* no /dev/mem */
    HANOK_NOT_ROOT = -103,  /* /dev/mem may be opened by root alone */
    HANOK_FORBIDDEN = -104, /* not even by this root: no CAP_SYS_RAWIO, or the kernel is locked down */
    HANOK_CLAIMED = -105,   /* a driver has the device */
    HANOK_ANOTHER = -106,   /* another device is there */
    HANOK_NO_AGENT = -107,  /* hanok-agent does not answer */
    HANOK_DENIED = -108,    /* hanok-agent said no: the reason is in the text */
    HANOK_ADMISSION = -109, /* SCHED_DEADLINE: Linux admits no more (EBUSY) */
    HANOK_PERMISSION = -110,/* SCHED_DEADLINE: no CAP_SYS_NICE, or the thread is bound to some CPUs (EPERM) */
    HANOK_TIMES = -111,     /* SCHED_DEADLINE: not 1024 ns <= execution <= deadline <= period (EINVAL) */
    HANOK_OTHER = -112      /* something else: see errno */
};

/* What hanok_read() reads. */
enum {
    HANOK_PERIOD, HANOK_BUDGET, HANOK_DEADLINE, HANOK_LEFT, HANOK_USED, HANOK_EXTRA, HANOK_THROTTLED, HANOK_STOLEN,
    HANOK_LIMIT, HANOK_SHORTEST_PERIOD
};

/* Bits of hanok_features(). */
enum { HANOK_ENFORCED = 1, HANOK_ASKS = 2 };

/* The device. Tests put functions of their own into load and store. */
struct hanok_vcpu {
    uint32_t (*load)(void *context, unsigned offset);
    void (*store)(void *context, unsigned offset, uint32_t value);
    void *context;
    int file;
};

/* A periodic task; a deadline of 0 is the period. */
struct hanok_task {
    uint64_t period, execution, deadline;
};

/* Opens the device. Its calls concern the vCPU that the calling thread is on: hanok_bind() first. */
int hanok_open(struct hanok_vcpu *vcpu);
void hanok_close(struct hanok_vcpu *vcpu);

/* The calls. What comes with the answer is put to *value, unless that is NULL. */
int hanok_features(struct hanok_vcpu *vcpu);
int hanok_read(struct hanok_vcpu *vcpu, unsigned item, uint64_t *value);
/* Asks for another interface (a deadline of 0 is the period), and comes back when the answer is there. The value of a
 * yes is the instant at which it takes effect, in nanoseconds of the board's counter. */
int hanok_ask(struct hanok_vcpu *vcpu, uint64_t period, uint64_t budget, uint64_t deadline, uint64_t *value);

/* The calling thread: on one CPU; as a periodic task (SCHED_DEADLINE); until the next period; as usual again. */
int hanok_bind(unsigned cpu);
int hanok_become_periodic(const struct hanok_task *task);
void hanok_next_period(void);
int hanok_become_usual(void);
/* Its CPU time, as Linux sees it. */
uint64_t hanok_cpu_time(void);

/* Connects to hanok-agent (NULL: at /run/hanok-agent.sock): a descriptor. When it is closed, also because the program
 * dies, its tasks are taken back. */
int hanok_agent_connect(const char *path);
/* Declares the calling thread as a task: its number. The reason of a no is put to text. */
int hanok_agent_declare(int agent, const char *name, const struct hanok_task *task, char *text, unsigned size);
int hanok_agent_revoke(int agent, int task);

/* What an error means; why Hanok refused. */
const char *hanok_error(int error);
const char *hanok_refusal(uint64_t value);

#ifdef __cplusplus
}
#endif
#endif
