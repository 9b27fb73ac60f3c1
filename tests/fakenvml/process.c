/* What processes hold and use: process lists and process utilisation. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- process lists --- */

enum { ALL_KINDS = 3 };

/* Whether the process is in the list of this kind on this device. A parent of MIG devices lists theirs. */
static bool is_listed(const Call *call, const Process *process, unsigned kind)
{
    if (kind != ALL_KINDS && process->kind != kind) return false;
    if (call->instance && process->instance != (int)(call->instance - call->gpu->instances)) return false;
    return process->start <= call->now && call->now < process->end;
}

static nvmlProcessDetail_v1_t detail_of(const Call *call, const Process *process)
{
    nvmlProcessDetail_v1_t detail = {.pid = process->pid,
                                     .usedGpuMemory = process->memory,
                                     .gpuInstanceId = NVML_NO_INSTANCE,
                                     .computeInstanceId = NVML_NO_INSTANCE};
    if (process->instance != WHOLE) {
        detail.gpuInstanceId = call->gpu->instances[process->instance].gi;
        detail.computeInstanceId = call->gpu->instances[process->instance].ci;
    }
    return detail;
}

static unsigned count_processes(const Call *call, unsigned kind)
{
    unsigned count = 0;
    for (unsigned i = 0; i < call->gpu->process_count; i++) count += is_listed(call, &call->gpu->processes[i], kind);
    return count;
}

/* Writes each process with `size` bytes: the layouts differ only in how many fields they have. */
static nvmlReturn_t list_processes(const Call *call, unsigned kind, unsigned *count, void *rows, size_t size)
{
    if (!count) return NVML_ERROR_INVALID_ARGUMENT;
    unsigned needed = count_processes(call, kind), given = *count;
    *count = needed;
    if (!needed) return NVML_SUCCESS;
    if (!rows || given < needed) return NVML_ERROR_INSUFFICIENT_SIZE;
    char *row = rows;
    for (unsigned i = 0; i < call->gpu->process_count; i++) {
        if (!is_listed(call, &call->gpu->processes[i], kind)) continue;
        nvmlProcessDetail_v1_t detail = detail_of(call, &call->gpu->processes[i]);
        memcpy(row, &detail, size);
        row += size;
    }
    return NVML_SUCCESS;
}

#define LIST(function, kind, row_type)                                                          \
    NVML(function)(nvmlDevice_t device, unsigned *count, row_type *rows)                        \
    {                                                                                           \
        DEVICE_CALL(device)                                                                     \
        return list_processes(&call, kind, count, rows, sizeof *rows);                          \
    }
LIST(nvmlDeviceGetComputeRunningProcesses, COMPUTE, nvmlProcessInfo_v1_t)
LIST(nvmlDeviceGetComputeRunningProcesses_v2, COMPUTE, nvmlProcessInfo_v2_t)
LIST(nvmlDeviceGetComputeRunningProcesses_v3, COMPUTE, nvmlProcessInfo_t)
LIST(nvmlDeviceGetGraphicsRunningProcesses, GRAPHICS, nvmlProcessInfo_v1_t)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, GRAPHICS, nvmlProcessInfo_v2_t)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, GRAPHICS, nvmlProcessInfo_t)
LIST(nvmlDeviceGetMPSComputeRunningProcesses, MPS, nvmlProcessInfo_v1_t)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, MPS, nvmlProcessInfo_v2_t)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, MPS, nvmlProcessInfo_t)

NVML(nvmlDeviceGetRunningProcessDetailList)(nvmlDevice_t device, nvmlProcessDetailList_v1_t *list)
{
    DEVICE_CALL(device)
    if (list->version != NVML_VERSION(nvmlProcessDetailList_v1_t, 1)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return list_processes(&call, list->mode, &list->numProcArrayEntries, list->procArray, sizeof *list->procArray);
}

NVML(nvmlSystemGetProcessName)(unsigned pid, char *name, unsigned length)
{
    CALL()
    for (unsigned gpu = 0; gpu < call.scenario->gpu_count; gpu++)
        for (unsigned i = 0; i < call.scenario->gpus[gpu].process_count; i++)
            if (call.scenario->gpus[gpu].processes[i].pid == pid)
                return put_string(name, length, call.scenario->gpus[gpu].processes[i].name);
    return NVML_ERROR_NOT_FOUND;
}

/* --- memory limits of cgroups --- */

NVML(nvmlDeviceGetMemoryLimits_v1)(nvmlDevice_t device, nvmlGetMemoryLimits_v1_t *limits)
{
    BOARD_CALL(device)
    if (access(limits->nameSpace, R_OK)) return NVML_ERROR_OPERATING_SYSTEM;
    for (unsigned i = 0; i < call.gpu->limit_count; i++) {
        const Limit *limit = &call.gpu->limits[i];
        if (strcmp(limit->cgroup, limits->nameSpace)) continue;
        limits->softLimit = limit->soft;
        limits->hardLimit = limit->hard;
        limits->currentUsed = limit->used;
        return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}

/* --- process utilisation --- */

/* Before the division by the number of samples the utilisations are sums of 1/100 %. */
typedef struct {
    Row *rows;
    unsigned count;
} Rows;

static Row *row_of(Rows *rows, unsigned pid)
{
    for (unsigned i = 0; i < rows->count; i++)
        if (rows->rows[i].pid == pid) return &rows->rows[i];
    rows->rows = realloc(rows->rows, (rows->count + 1) * sizeof *rows->rows);
    rows->rows[rows->count] = (Row){.pid = pid};
    return &rows->rows[rows->count++];
}

/*
 * Whom the driver names now for what a process used. As seen on an H200 (driver 580): nobody once it has ended,
 * and then the first process that began afterwards, which took its place.
 */
static unsigned heir_of(const Call *call, unsigned pid)
{
    if (!call->gpu->inherits) return pid;
    const Process *held = NULL;
    for (unsigned i = 0; i < call->gpu->process_count; i++)
        if (call->gpu->processes[i].pid == pid) held = &call->gpu->processes[i];
    while (held && held->end <= call->now) {
        const Process *next = NULL;
        for (unsigned i = 0; i < call->gpu->process_count; i++) {
            const Process *one = &call->gpu->processes[i];
            bool is_later = one->start >= held->end && one->start <= call->now;
            if (is_later && (!next || one->start < next->start)) next = one;
        }
        if (!next) return NVML_NO_PID;
        held = next;
    }
    return held ? held->pid : pid;
}

/* One row of each credited process; the sums are divided by all samples of the window, theirs or not. */
static Rows utilization_rows(Call *call, unsigned long long last_seen)
{
    Rows rows = {0};
    Ring ring = ring_open(call, last_seen);
    unsigned long long samples = 0;
    for (int64_t number = ring.first; number <= ring.last; number++) {
        const Sample *sample = ring_sample(&ring, number);
        if (!sample) continue;
        samples++;
        for (int engine = 0; engine < ENGINES; engine++) {
            if (sample->pid[engine] == NVML_NO_PID || !sample->share[engine]) continue;
            unsigned pid = heir_of(call, sample->pid[engine]);
            if (pid == NVML_NO_PID) continue;
            Row *row = row_of(&rows, pid);
            row->timestamp = sample_timestamp_us(call->gpu, number);
            row->sum[engine] += sample->share[engine];
        }
    }
    ring_close(&ring);
    for (unsigned i = 0; i < rows.count; i++)
        for (int engine = 0; engine < ENGINES; engine++) rows.rows[i].sum[engine] /= samples * 100;
    return rows;
}

/* Rows as drivers have been seen to give them (nvtop#110, go-nvml#51): they cannot be true. */
static void add_garbage(const Call *call, Rows *rows)
{
    unsigned long long now = (unsigned long long)call->now / 1000, old = now - 600000000ull;
    const Row kinds[] = {{0, now, {50}}, {NVML_NO_PID, now, {50}}, {99999, now, {4096, 4096}}, {99998, old, {20, 5}}};
    for (unsigned i = 0; i < call->gpu->garbage; i++) {
        rows->rows = realloc(rows->rows, (rows->count + 1) * sizeof *rows->rows);
        rows->rows[rows->count++] = kinds[i % 4];
    }
    for (unsigned i = 0; i < call->gpu->row_count; i++) {
        rows->rows = realloc(rows->rows, (rows->count + 1) * sizeof *rows->rows);
        rows->rows[rows->count++] = call->gpu->rows[i];
    }
}

/* What both functions do alike. On SUCCESS the rows are the caller's to free. */
static nvmlReturn_t find_rows(Call *call, unsigned long long last_seen, unsigned *count, bool probe, Rows *found)
{
    if (call->gpu->mig) return NVML_ERROR_NOT_SUPPORTED;
    unsigned given = *count;
    if (probe || !given) {
        *count = call->gpu->probe;
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    Rows rows = utilization_rows(call, last_seen);
    add_garbage(call, &rows);
    *count = rows.count;
    if (rows.count && rows.count <= given) {
        *found = rows;
        return NVML_SUCCESS;
    }
    free(rows.rows);
    return rows.count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_ERROR_NOT_FOUND;
}

NVML(nvmlDeviceGetProcessUtilization)(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples, unsigned *count,
                                      unsigned long long last_seen)
{
    BOARD_CALL(device)
    Rows found = {0};
    if (!count) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = find_rows(&call, last_seen, count, !samples, &found);
    for (unsigned i = 0; i < found.count; i++) {
        const Row *row = &found.rows[i];
        samples[i] = (nvmlProcessUtilizationSample_t){row->pid, row->timestamp,
                                                      (unsigned)row->sum[CORE], (unsigned)row->sum[MEMORY],
                                                      (unsigned)row->sum[ENCODER], (unsigned)row->sum[DECODER]};
    }
    free(found.rows);
    return result;
}

NVML(nvmlDeviceGetProcessesUtilizationInfo)(nvmlDevice_t device, nvmlProcessesUtilizationInfo_v1_t *info)
{
    BOARD_CALL(device)
    Rows found = {0};
    if (info->version != NVML_VERSION(nvmlProcessesUtilizationInfo_v1_t, 1)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t result = find_rows(&call, info->lastSeenTimeStamp, &info->processSamplesCount, !info->procUtilArray, &found);
    for (unsigned i = 0; i < found.count; i++) {
        const Row *row = &found.rows[i];
        info->procUtilArray[i] = (nvmlProcessUtilizationInfo_v1_t){row->timestamp, row->pid,
                                                                   (unsigned)row->sum[CORE], (unsigned)row->sum[MEMORY],
                                                                   (unsigned)row->sum[ENCODER], (unsigned)row->sum[DECODER], 0, 0};
    }
    free(found.rows);
    return result;
}
