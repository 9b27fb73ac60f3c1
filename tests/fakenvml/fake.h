/* What the files of the stand-in share: the scenario, a call's beginning, the samples. Times are nanoseconds since the epoch. */
#ifndef FAKENVML_FAKE_H
#define FAKENVML_FAKE_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi.h"

enum { MAX_GPUS = 64, MAX_INSTANCES = 16, MAX_RING = 8192 };
enum { CORE, MEMORY, ENCODER, DECODER, ENGINES };
enum { COMPUTE, GRAPHICS, MPS };           /* kinds of a process, as nvmlProcessDetailList_t.mode counts them */
enum { RULE_END, RULE_LONGEST, RULE_RANDOM };
enum { FAULT_ERROR, FAULT_DELAY, FAULT_HANG };

#define SECOND 1000000000ll
#define FOR_EVER INT64_MAX
#define WHOLE (-1) /* instance number of the GPU itself */
#define ANY_GPU (-1)

/* --- scenario.c --- */

typedef struct {
    unsigned pid, kind;
    const char *name;
    int instance;
    int64_t start, end;
    unsigned long long memory; /* NVML_NOT_AVAILABLE: the driver does not say */
} Process;

typedef struct {
    unsigned pid;
    int instance;
    int64_t start, end, period, busy, phase;
    double weight[ENGINES];
    unsigned user; /* place of its pid among the users of its unit */
    int sibling;   /* another work of the same user, or -1 */
} Work;

/* One ring sample: of each engine the busy share in 1/100 % and the one pid that it is credited to. */
typedef struct {
    unsigned share[ENGINES];
    unsigned pid[ENGINES];
} Sample;

/* What has engines and a ring of its own: a GPU or a MIG instance. */
typedef struct {
    Work *works;
    unsigned work_count, user_count;
    unsigned *pids; /* of the users */
    int *latest;    /* of each user's works; the others hang on it */
    pthread_mutex_t lock;
    Sample *ring; /* sample k lies at k mod size; computed up to `newest` */
    int64_t newest;
    int64_t integrated_until; /* the core's busy time up to here is `integrated` */
    double integrated;
} Unit;

typedef struct {
    bool present;
    const char *uuid, *profile;
    unsigned gi, ci, slices, compute, sms, start;
    unsigned long long memory;
} Instance;

typedef struct {
    unsigned id, scope, type;
    double value, rate;
    nvmlReturn_t error;
} Field;

typedef struct {
    unsigned code;
    int64_t at;
    uint64_t key; /* hash of the line */
} Xid;

typedef struct {
    const char *cgroup;
    unsigned long long soft, hard, used;
} Limit;

typedef struct {
    unsigned pid;
    unsigned long long timestamp; /* us */
    unsigned long long sum[ENGINES];
} Row;

typedef struct {
    bool present, lost, energy, mig_capable, mig, gpm, gpm_activity, gpm_still, sleeps, inherits;
    const char *uuid, *name, *pci;
    unsigned minor, power_mw, idle_mw, module_mw, limit_mw, temperature, memory_temperature, ring, probe, rule, garbage, slices, rates, license;
    unsigned long long memory, reserved, used;
    int64_t sample_period, sample_offset, slice, energy_step;
    Process *processes;
    Field *fields;
    Xid *xids;
    Limit *limits; /* of cgroups */
    Row *rows; /* of process utilisation, handed out as they are */
    Work *works; /* of all units, as read; each unit has its own copy */
    unsigned process_count, field_count, xid_count, work_count, row_count, limit_count;
    Instance instances[MAX_INSTANCES];
    Unit units[1 + MAX_INSTANCES]; /* 0 is the GPU itself */
} Gpu;

typedef struct {
    unsigned kind, code;
    int gpu;
    const char *function;
    int64_t count, skip, duration;
    uint64_t key;
} Fault;

/* CPU that a call takes, in all, and for each process on its GPU. `key`: a kind of sample, or a field; -1: neither. */
typedef struct {
    const char *function;
    int key;
    int64_t whole, each;
} Price;

typedef struct {
    char *text; /* the file; strings point into it */
    int references;
    const char *driver;
    int cuda;
    bool monotonic;
    int64_t loaded, frozen, offset;
    unsigned gpu_count;
    Gpu gpus[MAX_GPUS];
    Fault *faults;
    Price *prices;
    unsigned fault_count, price_count;
} Scenario;

/* Parses the file. A mistake in it ends the process. NULL: no such file. */
Scenario *scenario_read(const char *path);
void scenario_free(Scenario *scenario);
/* The scenario's time: frozen, or the real one. */
int64_t scenario_now(const Scenario *scenario);
uint64_t mix(uint64_t value);

/* --- call.c --- */

struct nvmlDevice_st {
    unsigned gpu;
    int instance;
};

typedef struct Counter {
    const char *name;
    struct Counter *next;
    bool listed;
    unsigned long long calls;
} Counter;

/* One call under way. It holds on to the scenario it began with. */
typedef struct {
    Scenario *scenario;
    Gpu *gpu;
    Instance *instance; /* NULL: the GPU itself */
    Unit *unit;
    int64_t now;
    int64_t begun; /* CPU time of its thread */
    int64_t owed;  /* so much CPU it takes at least */
    const char *function;
} Call;

nvmlReturn_t call_enter(Call *call, Counter *counter, nvmlDevice_t device, bool needs_init);
void call_leave(Call *call);
/* Adds the price of a kind of sample or a field to that of the call. */
void call_costs(Call *call, int key);
nvmlDevice_t device_handle(unsigned gpu, int instance);
/* The newest scenario, to be given back; NULL when there is none. */
Scenario *scenario_acquire(void);
void scenario_release(Scenario *scenario);
/* A descriptor that is readable once there may be another scenario file; -1: it cannot be told. */
int scenario_watch(void);
bool scenario_exists(void); /* false: its test is over */
void sleep_for(int64_t duration);
nvmlReturn_t put_string(char *target, unsigned length, const char *text);

#define NO_LICENSE 2u /* of Gpu.license, which is otherwise 0 or 1 */

#define NVML(name) __attribute__((visibility("default"))) nvmlReturn_t name

/* Begins every function: counts it, plays its faults, resolves its device. `device` NULL: the function has none. */
#define BEGIN(device, needs_init)                                                              \
    static Counter counter = {.name = __func__};                                               \
    __attribute__((cleanup(call_leave))) Call call = {0};                                      \
    {                                                                                          \
        nvmlReturn_t entered = call_enter(&call, &counter, device, needs_init);                \
        if (entered != NVML_SUCCESS) return entered;                                           \
    }

#define CALL() BEGIN(NULL, true)
#define DEVICE_CALL(device)                                                                    \
    if (!(device)) return NVML_ERROR_INVALID_ARGUMENT;                                         \
    BEGIN(device, true)
/* For what only a whole board has: a MIG device does not support it. */
#define BOARD_CALL(device)                                                                     \
    DEVICE_CALL(device)                                                                        \
    if (call.instance) return NVML_ERROR_NOT_SUPPORTED;

/* A getter of one or two values; `scope` says whether a MIG device has them. */
#define GET_ONE(function, type, scope, value)                     \
    NVML(function)(nvmlDevice_t device, type *result)             \
    {                                                             \
        scope(device)                                             \
        *result = (type)(value);                                  \
        return NVML_SUCCESS;                                      \
    }
#define GET_PAIR(function, type, scope, first, second)                            \
    NVML(function)(nvmlDevice_t device, type *result, type *other)                \
    {                                                                             \
        scope(device)                                                             \
        *result = (type)(first);                                                  \
        *other = (type)(second);                                                  \
        return NVML_SUCCESS;                                                      \
    }
#define GET_NOTHING(function)                        \
    NVML(function)(nvmlDevice_t device)              \
    {                                                \
        DEVICE_CALL(device)                          \
        return NVML_ERROR_NOT_SUPPORTED;             \
    }

/* --- ring.c --- */

/* Samples of a unit newer than a time stamp, oldest first, with the unit's lock held until ring_close. */
typedef struct {
    Unit *unit;
    const Gpu *gpu;
    int64_t first, last; /* sample numbers; none when first > last */
} Ring;

Ring ring_open(Call *call, unsigned long long last_seen_us);
void ring_close(Ring *ring);
/* NULL: the GPU slept, and took none. */
const Sample *ring_sample(const Ring *ring, int64_t number);
unsigned long long sample_timestamp_us(const Gpu *gpu, int64_t number);
/* The newest sample; zero shares and no pid when there is none. */
Sample last_sample(Call *call);
/* Busy nanoseconds of each engine in a time span. */
void engines_busy(const Unit *unit, int64_t from, int64_t to, double busy[ENGINES]);
/* Busy nanoseconds of the board's cores since `loaded`; a MIG instance counts by its slices. */
double board_busy_until(Call *call, int64_t until);
unsigned power_of_share(const Gpu *gpu, double share);

/* --- board.c --- */

unsigned long long memory_used(const Call *call);
unsigned power_now_mw(Call *call);
unsigned long long energy_mj(Call *call);

#endif
