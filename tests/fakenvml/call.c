/* The beginning and end of a call: counting, the current scenario, faults, handles; and init and shutdown. */
#include "fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

void sleep_for(int64_t duration)
{
    struct timespec rest = {duration / SECOND, duration % SECOND};
    while (nanosleep(&rest, &rest)) continue;
}

/* --- counting --- */

static Counter *counters;
static pthread_mutex_t counters_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned waiting; /* calls in a hang */

static void count(Counter *counter)
{
    pthread_mutex_lock(&counters_lock);
    if (!counter->listed) { /* its first call */
        counter->listed = true;
        counter->next = counters;
        counters = counter;
    }
    counter->calls++;
    pthread_mutex_unlock(&counters_lock);
}

EXPORT unsigned long long fakenvml_calls(const char *name)
{
    unsigned long long calls = 0;
    pthread_mutex_lock(&counters_lock);
    for (Counter *counter = counters; counter; counter = counter->next)
        if (!strcmp(counter->name, name)) calls = counter->calls;
    pthread_mutex_unlock(&counters_lock);
    return calls;
}

EXPORT unsigned fakenvml_waiting(void)
{
    return __atomic_load_n(&waiting, __ATOMIC_SEQ_CST);
}

__attribute__((destructor)) static void write_counts(void)
{
    const char *path = getenv("FAKENVML_COUNTS");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    pthread_mutex_lock(&counters_lock);
    for (Counter *counter = counters; counter; counter = counter->next)
        fprintf(file, "%s %llu\n", counter->name, counter->calls);
    pthread_mutex_unlock(&counters_lock);
    fclose(file);
}

/* --- CPU time --- */

static int64_t *cpu_used; /* ns of all calls so far, in a file that others can read; NULL: nobody asks */

__attribute__((constructor)) static void open_cpu_file(void)
{
    const char *path = getenv("FAKENVML_CPU");
    int file = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644) : -1;
    if (file < 0) return;
    void *place = ftruncate(file, sizeof *cpu_used)
                      ? MAP_FAILED
                      : mmap(NULL, sizeof *cpu_used, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (place != MAP_FAILED) cpu_used = place;
}

static int64_t thread_cpu(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return used.tv_sec * SECOND + used.tv_nsec;
}

/* --- the current scenario --- */

static pthread_mutex_t scenario_lock = PTHREAD_MUTEX_INITIALIZER;
static Scenario *current;
static char current_path[4096];
static struct stat current_file;

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Reads the file again if it is another one. The lock is held. False: there is no file. */
static bool refresh(void)
{
    const char *path = getenv("FAKENVML_SCENARIO");
    struct stat file;
    if (!path || stat(path, &file)) return false;
    if (current && same_file(&file, &current_file) && !strcmp(path, current_path)) return true;
    Scenario *fresh = scenario_read(path);
    if (!fresh) return false;
    if (current && !current->references) scenario_free(current);
    current = fresh;
    current_file = file;
    snprintf(current_path, sizeof current_path, "%s", path);
    write_counts();
    return true;
}

int scenario_watch(void)
{
    const char *path = getenv("FAKENVML_SCENARIO");
    char folder[4096];
    if (!path || (size_t)snprintf(folder, sizeof folder, "%s", path) >= sizeof folder) return -1;
    char *name = strrchr(folder, '/');
    if (name) *(name == folder ? name + 1 : name) = 0;
    int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (watch >= 0) inotify_add_watch(watch, name ? folder : ".", IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE | IN_MODIFY);
    return watch;
}

bool scenario_exists(void)
{
    pthread_mutex_lock(&scenario_lock);
    bool exists = refresh();
    pthread_mutex_unlock(&scenario_lock);
    return exists;
}

Scenario *scenario_acquire(void)
{
    pthread_mutex_lock(&scenario_lock);
    refresh();
    Scenario *scenario = current;
    if (scenario) scenario->references++;
    pthread_mutex_unlock(&scenario_lock);
    return scenario;
}

void scenario_release(Scenario *scenario)
{
    pthread_mutex_lock(&scenario_lock);
    if (!--scenario->references && scenario != current) scenario_free(scenario);
    pthread_mutex_unlock(&scenario_lock);
}

/* --- faults --- */

/* How often each fault was met, by its text: the counters outlive a rewrite of the file. */
static struct Met {
    uint64_t key;
    int64_t times;
} *met;
static unsigned met_count;
static pthread_mutex_t met_lock = PTHREAD_MUTEX_INITIALIZER;

static bool fault_is_due(const Fault *fault)
{
    pthread_mutex_lock(&met_lock);
    unsigned place = 0;
    while (place < met_count && met[place].key != fault->key) place++;
    if (place == met_count) {
        met = realloc(met, ++met_count * sizeof *met);
        met[place] = (struct Met){fault->key, 0};
    }
    int64_t before = met[place].times++;
    pthread_mutex_unlock(&met_lock);
    return before >= fault->skip && before - fault->skip < fault->count;
}

static bool fault_matches(const Fault *fault, const char *function, nvmlDevice_t device)
{
    size_t length = strlen(fault->function);
    bool named = length && fault->function[length - 1] == '*' ? !strncmp(fault->function, function, length - 1)
                                                               : !strcmp(fault->function, function);
    return named && (fault->gpu == ANY_GPU || (device && (unsigned)fault->gpu == device->gpu));
}

static bool fault_still_there(uint64_t key)
{
    if (!scenario_exists()) return false; /* its test is over */
    Scenario *scenario = scenario_acquire();
    bool there = false;
    for (unsigned i = 0; i < scenario->fault_count; i++) there |= scenario->faults[i].key == key;
    scenario_release(scenario);
    return there;
}

/* Waits until the line is gone from the file or its time is over. */
static void hang(uint64_t key, int64_t duration)
{
    const int64_t nap = SECOND / 500;
    __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    for (int64_t waited = 0; fault_still_there(key) && (!duration || waited < duration); waited += nap) sleep_for(nap);
    __atomic_sub_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
}

static nvmlReturn_t play_faults(Call *call, const char *function, nvmlDevice_t device)
{
    bool slept = false;
    for (unsigned i = 0; i < call->scenario->fault_count; i++) {
        const Fault *fault = &call->scenario->faults[i];
        if (!fault_matches(fault, function, device) || !fault_is_due(fault)) continue;
        if (fault->kind == FAULT_ERROR) return (nvmlReturn_t)fault->code;
        if (fault->kind == FAULT_DELAY) sleep_for(fault->duration);
        else hang(fault->key, fault->duration);
        slept = true;
    }
    if (slept) { /* go on with what is true now */
        scenario_release(call->scenario);
        call->scenario = scenario_acquire();
    }
    return NVML_SUCCESS;
}

/* --- handles --- */

static struct nvmlDevice_st handles[MAX_GPUS][1 + MAX_INSTANCES];

__attribute__((constructor)) static void number_handles(void)
{
    for (unsigned gpu = 0; gpu < MAX_GPUS; gpu++)
        for (int instance = WHOLE; instance < MAX_INSTANCES; instance++)
            handles[gpu][1 + instance] = (struct nvmlDevice_st){gpu, instance};
}

nvmlDevice_t device_handle(unsigned gpu, int instance)
{
    return &handles[gpu][1 + instance];
}

static bool is_handle(nvmlDevice_t device)
{
    uintptr_t place = (uintptr_t)device - (uintptr_t)handles;
    return place < sizeof handles && place % sizeof *device == 0;
}

static nvmlReturn_t resolve(Call *call, nvmlDevice_t device)
{
    if (device->gpu >= call->scenario->gpu_count) return NVML_ERROR_INVALID_ARGUMENT;
    call->gpu = &call->scenario->gpus[device->gpu];
    call->unit = &call->gpu->units[1 + device->instance];
    if (call->gpu->lost) return NVML_ERROR_GPU_IS_LOST;
    if (device->instance == WHOLE) return NVML_SUCCESS;
    call->instance = &call->gpu->instances[device->instance];
    return call->gpu->mig && call->instance->present ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

/* --- a call --- */

static unsigned initialised; /* nvmlInit calls without their nvmlShutdown */

nvmlReturn_t call_enter(Call *call, Counter *counter, nvmlDevice_t device, bool needs_init)
{
    call->begun = thread_cpu();
    call->function = counter->name;
    count(counter);
    if (needs_init && !__atomic_load_n(&initialised, __ATOMIC_SEQ_CST)) return NVML_ERROR_UNINITIALIZED;
    if (device && !is_handle(device)) return NVML_ERROR_INVALID_ARGUMENT;
    call->scenario = scenario_acquire();
    if (!call->scenario) return NVML_ERROR_DRIVER_NOT_LOADED;
    nvmlReturn_t fault = play_faults(call, counter->name, device);
    call->now = scenario_now(call->scenario);
    if (fault != NVML_SUCCESS) return fault;
    nvmlReturn_t resolved = device ? resolve(call, device) : NVML_SUCCESS;
    if (resolved == NVML_SUCCESS) call_costs(call, -1);
    return resolved;
}

void call_costs(Call *call, int key)
{
    int64_t processes = 0;
    for (unsigned i = 0; call->gpu && i < call->gpu->process_count; i++) {
        const Process *process = &call->gpu->processes[i];
        processes += process->start <= call->now && call->now < process->end;
    }
    for (unsigned i = 0; i < call->scenario->price_count; i++) {
        const Price *price = &call->scenario->prices[i];
        if (price->key == key && !strcmp(price->function, call->function))
            call->owed += price->whole + price->each * processes;
    }
}

void call_leave(Call *call)
{
    while (call->owed && thread_cpu() - call->begun < call->owed) continue;
    if (call->scenario) scenario_release(call->scenario);
    if (cpu_used) __atomic_add_fetch(cpu_used, thread_cpu() - call->begun, __ATOMIC_RELAXED);
}

nvmlReturn_t put_string(char *target, unsigned length, const char *text)
{
    if (!target) return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= length) return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(target, text);
    return NVML_SUCCESS;
}

static nvmlReturn_t initialise(void)
{
    if (!scenario_exists()) return NVML_ERROR_DRIVER_NOT_LOADED;
    __atomic_add_fetch(&initialised, 1, __ATOMIC_SEQ_CST);
    return NVML_SUCCESS;
}

NVML(nvmlInit)(void)
{
    BEGIN(NULL, false)
    return initialise();
}

NVML(nvmlInit_v2)(void)
{
    BEGIN(NULL, false)
    return initialise();
}

NVML(nvmlInitWithFlags)(unsigned flags)
{
    BEGIN(NULL, false)
    (void)flags;
    return initialise();
}

NVML(nvmlShutdown)(void)
{
    CALL()
    __atomic_sub_fetch(&initialised, 1, __ATOMIC_SEQ_CST);
    write_counts();
    return NVML_SUCCESS;
}
