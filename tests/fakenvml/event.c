/* Event sets: XID events from the scenario's lines. */
#include "fake.h"

#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { EVENT_XID = 8 };

struct nvmlEventSet_st {
    bool registered[MAX_GPUS];
    int64_t since[MAX_GPUS]; /* what happened before the registration is not reported */
    uint64_t *reported;      /* keys of the lines */
    unsigned reported_count;
};

NVML(nvmlEventSetCreate)(nvmlEventSet_t *set)
{
    CALL()
    *set = calloc(1, sizeof **set);
    return NVML_SUCCESS;
}

NVML(nvmlEventSetFree)(nvmlEventSet_t set)
{
    CALL()
    free(set->reported);
    free(set);
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetSupportedEventTypes)(nvmlDevice_t device, unsigned long long *types)
{
    BOARD_CALL(device)
    *types = EVENT_XID;
    return NVML_SUCCESS;
}

NVML(nvmlDeviceRegisterEvents)(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    BOARD_CALL(device)
    if (types & ~(unsigned long long)EVENT_XID) return NVML_ERROR_NOT_SUPPORTED;
    set->registered[device->gpu] = true;
    set->since[device->gpu] = call.now;
    return NVML_SUCCESS;
}

static bool is_reported(const struct nvmlEventSet_st *set, uint64_t key)
{
    for (unsigned i = 0; i < set->reported_count; i++)
        if (set->reported[i] == key) return true;
    return false;
}

/* An event without a time happens when its line is first seen. */
static bool is_due(const struct nvmlEventSet_st *set, unsigned gpu, const Xid *xid, int64_t now)
{
    return xid->at <= now && (!xid->at || xid->at > set->since[gpu]) && !is_reported(set, xid->key);
}

/* TIMEOUT: nothing is due. */
static nvmlReturn_t take_event(struct nvmlEventSet_st *set, const Scenario *scenario, nvmlEventData_t *data)
{
    int64_t now = scenario_now(scenario);
    for (unsigned gpu = 0; gpu < scenario->gpu_count; gpu++) {
        if (!set->registered[gpu]) continue;
        for (unsigned i = 0; i < scenario->gpus[gpu].xid_count; i++) {
            const Xid *xid = &scenario->gpus[gpu].xids[i];
            if (!is_due(set, gpu, xid, now)) continue;
            set->reported = realloc(set->reported, (set->reported_count + 1) * sizeof *set->reported);
            set->reported[set->reported_count++] = xid->key;
            *data = (nvmlEventData_t){device_handle(gpu, WHOLE), EVENT_XID, xid->code, NVML_NO_INSTANCE, NVML_NO_INSTANCE};
            return NVML_SUCCESS;
        }
        if (scenario->gpus[gpu].lost) return NVML_ERROR_GPU_IS_LOST;
    }
    return NVML_ERROR_TIMEOUT;
}

/* How long until the next event of the scenario may be due, a second at most. */
static int64_t until_next(const Scenario *scenario)
{
    int64_t now = scenario_now(scenario), next = SECOND;
    for (unsigned gpu = 0; gpu < scenario->gpu_count; gpu++)
        for (unsigned i = 0; i < scenario->gpus[gpu].xid_count; i++) {
            int64_t left = scenario->gpus[gpu].xids[i].at - now;
            if (left > 0 && left < next) next = left;
        }
    return next;
}

static int64_t monotonic(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

/* Sleeps as a driver does: woken by nothing but news, which here is another scenario file. */
static nvmlReturn_t wait_for_event(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms)
{
    const int64_t end = monotonic() + timeout_ms * (SECOND / 1000);
    struct pollfd news = {scenario_watch(), POLLIN, 0};
    nvmlReturn_t result;
    for (;;) {
        char read_events[4096];
        while (read(news.fd, read_events, sizeof read_events) > 0) continue;
        Scenario *scenario = scenario_acquire();
        result = take_event(set, scenario, data);
        int64_t nap = until_next(scenario), left = end - monotonic();
        scenario_release(scenario);
        if (result != NVML_ERROR_TIMEOUT || left <= 0 || !scenario_exists()) break; /* or its test is over */
        if (left < nap) nap = left;
        poll(&news, 1, (int)((nap + SECOND / 1000 - 1) / (SECOND / 1000)));
    }
    if (news.fd >= 0) close(news.fd);
    return result;
}

NVML(nvmlEventSetWait)(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms)
{
    CALL()
    return wait_for_event(set, data, timeout_ms);
}

NVML(nvmlEventSetWait_v2)(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms)
{
    CALL()
    return wait_for_event(set, data, timeout_ms);
}
