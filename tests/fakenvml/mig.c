/* MIG: instances of a board as devices of their own; and GPM, the only way to see their activity. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_MIG = 7 };

NVML(nvmlDeviceGetMigMode)(nvmlDevice_t device, unsigned *mode, unsigned *pending)
{
    BOARD_CALL(device)
    if (!call.gpu->mig_capable) return NVML_ERROR_NOT_SUPPORTED;
    *mode = *pending = call.gpu->mig;
    return NVML_SUCCESS;
}

NVML(nvmlDeviceIsMigDeviceHandle)(nvmlDevice_t device, unsigned *is_mig)
{
    DEVICE_CALL(device)
    *is_mig = call.instance != NULL;
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetMaxMigDeviceCount)(nvmlDevice_t device, unsigned *count)
{
    BOARD_CALL(device)
    *count = call.gpu->mig_capable ? MAX_MIG : 0;
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetMigDeviceHandleByIndex)(nvmlDevice_t device, unsigned index, nvmlDevice_t *mig)
{
    BOARD_CALL(device)
    if (!call.gpu->mig) return NVML_ERROR_NOT_SUPPORTED;
    if (index >= MAX_INSTANCES) return NVML_ERROR_INVALID_ARGUMENT;
    if (!call.gpu->instances[index].present) return NVML_ERROR_NOT_FOUND;
    *mig = device_handle(device->gpu, (int)index);
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetDeviceHandleFromMigDeviceHandle)(nvmlDevice_t mig, nvmlDevice_t *device)
{
    DEVICE_CALL(mig)
    if (!call.instance) return NVML_ERROR_INVALID_ARGUMENT;
    *device = device_handle(mig->gpu, WHOLE);
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetGpuInstanceId)(nvmlDevice_t device, unsigned *id)
{
    DEVICE_CALL(device)
    if (!call.instance) return NVML_ERROR_NOT_SUPPORTED;
    *id = call.instance->gi;
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetComputeInstanceId)(nvmlDevice_t device, unsigned *id)
{
    DEVICE_CALL(device)
    if (!call.instance) return NVML_ERROR_NOT_SUPPORTED;
    *id = call.instance->ci;
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetAttributes_v2)(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    DEVICE_CALL(device)
    if (!call.instance) return NVML_ERROR_NOT_SUPPORTED;
    *attributes = (nvmlDeviceAttributes_t){.multiprocessorCount = call.instance->sms,
                                           .sharedCopyEngineCount = call.instance->slices,
                                           .gpuInstanceSliceCount = call.instance->slices,
                                           .computeInstanceSliceCount = call.instance->compute,
                                           .memorySizeMB = call.instance->memory >> 20};
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetGpuInstanceProfileInfo)(nvmlDevice_t device, unsigned profile, nvmlGpuInstanceProfileInfo_t *info)
{
    static const unsigned slices[] = {1, 2, 3, 4, 7, 8, 6}; /* by NVML_GPU_INSTANCE_PROFILE_<n>_SLICE */
    BOARD_CALL(device)
    if (profile >= sizeof slices / sizeof *slices) return NVML_ERROR_INVALID_ARGUMENT;
    if (!call.gpu->mig_capable || slices[profile] > call.gpu->slices) return NVML_ERROR_NOT_SUPPORTED;
    *info = (nvmlGpuInstanceProfileInfo_t){.id = profile,
                                           .sliceCount = slices[profile],
                                           .instanceCount = call.gpu->slices / slices[profile]};
    return NVML_SUCCESS;
}

static int instance_by_id(const Gpu *gpu, unsigned gi)
{
    for (int i = 0; gpu->mig && i < MAX_INSTANCES; i++)
        if (gpu->instances[i].present && gpu->instances[i].gi == gi) return i;
    return WHOLE;
}

NVML(nvmlDeviceGetGpuInstanceById)(nvmlDevice_t device, unsigned id, nvmlGpuInstance_t *instance)
{
    BOARD_CALL(device)
    if (!call.gpu->mig) return NVML_ERROR_NOT_SUPPORTED;
    int found = instance_by_id(call.gpu, id);
    if (found == WHOLE) return NVML_ERROR_NOT_FOUND;
    *instance = device_handle(device->gpu, found);
    return NVML_SUCCESS;
}

/* Where an instance lies among its board's memory slices. */
NVML(nvmlGpuInstanceGetInfo)(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *info)
{
    DEVICE_CALL(instance)
    if (!call.instance) return NVML_ERROR_INVALID_ARGUMENT;
    *info = (nvmlGpuInstanceInfo_t){.device = device_handle(instance->gpu, WHOLE),
                                    .id = call.instance->gi,
                                    .placement = {call.instance->start, call.instance->slices}};
    return NVML_SUCCESS;
}

/* --- GPM --- */

/* A sample remembers where and when it was taken; what lies between two is computed when it is asked for. */
struct nvmlGpmSample_st {
    unsigned gpu;
    int instance;
    int64_t time; /* 0: not taken yet */
};

NVML(nvmlGpmQueryDeviceSupport)(nvmlDevice_t device, nvmlGpmSupport_t *support)
{
    DEVICE_CALL(device)
    if (support->version != 1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    support->isSupportedDevice = call.gpu->gpm;
    return NVML_SUCCESS;
}

NVML(nvmlGpmSampleAlloc)(nvmlGpmSample_t *sample)
{
    CALL()
    *sample = calloc(1, sizeof **sample);
    return NVML_SUCCESS;
}

NVML(nvmlGpmSampleFree)(nvmlGpmSample_t sample)
{
    CALL()
    free(sample);
    return NVML_SUCCESS;
}

NVML(nvmlGpmSampleGet)(nvmlDevice_t device, nvmlGpmSample_t sample)
{
    DEVICE_CALL(device)
    if (!call.gpu->gpm) return NVML_ERROR_NOT_SUPPORTED;
    *sample = (struct nvmlGpmSample_st){device->gpu, device->instance, call.now};
    return NVML_SUCCESS;
}

NVML(nvmlGpmMigSampleGet)(nvmlDevice_t device, unsigned gi, nvmlGpmSample_t sample)
{
    BOARD_CALL(device)
    if (!call.gpu->gpm || !call.gpu->mig) return NVML_ERROR_NOT_SUPPORTED;
    int found = instance_by_id(call.gpu, gi);
    if (found == WHOLE) return NVML_ERROR_NOT_FOUND;
    *sample = (struct nvmlGpmSample_st){device->gpu, found, call.now};
    return NVML_SUCCESS;
}

enum { GPM_GRAPHICS = 1, GPM_SM = 2, GPM_OCCUPANCY = 3, GPM_TENSOR = 5, GPM_DRAM = 10, GPM_PCIE_TX = 20, GPM_PCIE_RX = 21 };
enum { PCIE_TX_BYTES = 197, PCIE_RX_BYTES = 198 }; /* the fields whose rate these metrics show */

static void answer_traffic(nvmlGpmMetric_t *metric, const Gpu *gpu, unsigned field)
{
    metric->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    for (unsigned i = 0; i < gpu->field_count; i++)
        if (gpu->fields[i].id == field) {
            metric->nvmlReturn = NVML_SUCCESS;
            metric->value = gpu->fields[i].rate / (1 << 20);
        }
}

/* Occupancy and tensor activity have no line of their own: half and a quarter of the core's. */
static void answer_metric(nvmlGpmMetric_t *metric, const Gpu *gpu, int instance, const double share[ENGINES])
{
    metric->nvmlReturn = NVML_SUCCESS;
    metric->shortName = metric->longName = "";
    metric->unit = "%";
    bool activity = metric->metricId == GPM_GRAPHICS || metric->metricId == GPM_SM;
    if (activity && !gpu->gpm_activity) metric->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    else if (activity) metric->value = 100 * share[CORE];
    else if (metric->metricId == GPM_OCCUPANCY) metric->value = 50 * share[CORE];
    else if (metric->metricId == GPM_TENSOR) metric->value = 25 * share[CORE];
    else if (metric->metricId == GPM_DRAM) metric->value = 100 * share[MEMORY];
    else if (metric->metricId == GPM_PCIE_TX && instance == WHOLE) answer_traffic(metric, gpu, PCIE_TX_BYTES);
    else if (metric->metricId == GPM_PCIE_RX && instance == WHOLE) answer_traffic(metric, gpu, PCIE_RX_BYTES);
    else metric->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
}

NVML(nvmlGpmMetricsGet)(nvmlGpmMetricsGet_t *get)
{
    CALL()
    if (get->version != 1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlGpmSample_t first = get->sample1, second = get->sample2;
    if (!first || !second || first->gpu != second->gpu || first->instance != second->instance)
        return NVML_ERROR_INVALID_ARGUMENT;
    /* The header asks for more than 100 ms between the two. */
    if (first->gpu >= call.scenario->gpu_count || second->time - first->time < SECOND / 10) return NVML_ERROR_INVALID_ARGUMENT;
    const Gpu *gpu = &call.scenario->gpus[first->gpu];
    double share[ENGINES];
    engines_busy(&gpu->units[1 + first->instance], first->time, second->time, share);
    for (int engine = 0; engine < ENGINES; engine++)
        share[engine] = gpu->gpm_still ? 0 : share[engine] / (double)(second->time - first->time);
    for (unsigned i = 0; i < get->numMetrics; i++) answer_metric(&get->metrics[i], gpu, first->instance, share);
    return NVML_SUCCESS;
}
