/* How a board fares: memory, utilisation, power, energy, sensors. */
#include "fake.h"

/* --- memory --- */

unsigned long long memory_used(const Call *call)
{
    if (!call->instance && call->gpu->used != NVML_NOT_AVAILABLE) return call->gpu->used;
    unsigned long long used = 0;
    for (unsigned i = 0; i < call->gpu->process_count; i++) {
        const Process *process = &call->gpu->processes[i];
        /* Compute instances of one GPU instance share its memory: each shows all of it. */
        bool here = !call->instance || (process->instance != WHOLE &&
                                        call->gpu->instances[process->instance].gi == call->instance->gi);
        if (here && process->memory != NVML_NOT_AVAILABLE && process->start <= call->now && call->now < process->end)
            used += process->memory;
    }
    return used;
}

static nvmlMemory_v2_t memory_of(const Call *call)
{
    nvmlMemory_v2_t memory = {.total = call->instance ? call->instance->memory : call->gpu->memory,
                              .reserved = call->instance ? 0 : call->gpu->reserved,
                              .used = memory_used(call)};
    unsigned long long taken = memory.reserved + memory.used;
    memory.free = memory.total > taken ? memory.total - taken : 0;
    return memory;
}

NVML(nvmlDeviceGetMemoryInfo)(nvmlDevice_t device, nvmlMemory_t *memory)
{
    DEVICE_CALL(device)
    nvmlMemory_v2_t now = memory_of(&call);
    *memory = (nvmlMemory_t){now.total, now.free, now.used + now.reserved};
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetMemoryInfo_v2)(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    DEVICE_CALL(device)
    if (memory->version != NVML_VERSION(nvmlMemory_v2_t, 2)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    *memory = memory_of(&call);
    memory->version = NVML_VERSION(nvmlMemory_v2_t, 2);
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetBAR1MemoryInfo)(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
    DEVICE_CALL(device)
    *memory = (nvmlBAR1Memory_t){256ull << 20, 255ull << 20, 1ull << 20};
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetConfComputeMemSizeInfo)(nvmlDevice_t device, nvmlConfComputeMemSizeInfo_t *memory)
{
    DEVICE_CALL(device)
    *memory = (nvmlConfComputeMemSizeInfo_t){0, call.gpu->memory / 1024};
    return NVML_SUCCESS;
}

/* --- utilisation, power, energy --- */

static double share_now(Call *call)
{
    if (!call->gpu->mig) return last_sample(call).share[CORE] / 10000.0;
    double share = 0;
    for (int i = 0; i < MAX_INSTANCES; i++) {
        if (!call->gpu->instances[i].present) continue;
        call->unit = &call->gpu->units[1 + i];
        share += last_sample(call).share[CORE] / 10000.0 * call->gpu->instances[i].slices / call->gpu->slices;
    }
    return share;
}

unsigned power_now_mw(Call *call)
{
    return power_of_share(call->gpu, share_now(call));
}

unsigned long long energy_mj(Call *call)
{
    int64_t until = call->now / call->gpu->energy_step * call->gpu->energy_step;
    int64_t loaded = call->scenario->loaded;
    if (until < loaded) return 0;
    double active = board_busy_until(call, until) * (call->gpu->power_mw - call->gpu->idle_mw);
    return (unsigned long long)((__int128)(until - loaded) * (call->gpu->idle_mw + call->gpu->module_mw) / SECOND) +
           (unsigned long long)(active / SECOND);
}

/* Percent of an engine now, or what the scenario makes the driver say. */
static unsigned rate_now(Call *call, int engine)
{
    return call->gpu->rates == UINT_MAX ? last_sample(call).share[engine] / 100 : call->gpu->rates;
}

NVML(nvmlDeviceGetUtilizationRates)(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    BOARD_CALL(device)
    if (call.gpu->mig) return NVML_ERROR_NOT_SUPPORTED;
    *utilization = (nvmlUtilization_t){rate_now(&call, CORE), rate_now(&call, MEMORY)};
    return NVML_SUCCESS;
}

static nvmlReturn_t engine_utilization(Call *call, int engine, unsigned *utilization, unsigned *period_us)
{
    if (call->gpu->mig) return NVML_ERROR_NOT_SUPPORTED;
    *utilization = rate_now(call, engine);
    *period_us = (unsigned)(call->gpu->sample_period / 1000);
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetEncoderUtilization)(nvmlDevice_t device, unsigned *utilization, unsigned *period_us)
{
    BOARD_CALL(device)
    return engine_utilization(&call, ENCODER, utilization, period_us);
}

NVML(nvmlDeviceGetDecoderUtilization)(nvmlDevice_t device, unsigned *utilization, unsigned *period_us)
{
    BOARD_CALL(device)
    return engine_utilization(&call, DECODER, utilization, period_us);
}

NVML(nvmlDeviceGetTotalEnergyConsumption)(nvmlDevice_t device, unsigned long long *energy)
{
    BOARD_CALL(device)
    if (!call.gpu->energy) return NVML_ERROR_NOT_SUPPORTED;
    *energy = energy_mj(&call);
    return NVML_SUCCESS;
}

GET_ONE(nvmlDeviceGetPowerUsage, unsigned, BOARD_CALL, power_now_mw(&call))
GET_ONE(nvmlDeviceGetEnforcedPowerLimit, unsigned, BOARD_CALL, call.gpu->limit_mw)
GET_ONE(nvmlDeviceGetPowerManagementLimit, unsigned, BOARD_CALL, call.gpu->limit_mw)
GET_ONE(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, BOARD_CALL, call.gpu->limit_mw)
GET_ONE(nvmlDeviceGetPowerManagementMode, unsigned, BOARD_CALL, 1)
GET_PAIR(nvmlDeviceGetPowerManagementLimitConstraints, unsigned, BOARD_CALL, call.gpu->limit_mw / 2, call.gpu->limit_mw)

/* --- sensors --- */

NVML(nvmlDeviceGetTemperature)(nvmlDevice_t device, unsigned sensor, unsigned *temperature)
{
    BOARD_CALL(device)
    if (sensor != 0) return NVML_ERROR_INVALID_ARGUMENT;
    *temperature = call.gpu->temperature;
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetTemperatureV)(nvmlDevice_t device, nvmlTemperature_v1_t *temperature)
{
    BOARD_CALL(device)
    if (temperature->version != NVML_VERSION(nvmlTemperature_v1_t, 1)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (temperature->sensorType != 0) return NVML_ERROR_INVALID_ARGUMENT;
    temperature->temperature = (int)call.gpu->temperature;
    return NVML_SUCCESS;
}

static const unsigned clocks_mhz[] = {1755, 1755, 2619, 1545}; /* graphics, SM, memory, video */

NVML(nvmlDeviceGetClockInfo)(nvmlDevice_t device, unsigned type, unsigned *mhz)
{
    BOARD_CALL(device)
    if (type >= 4) return NVML_ERROR_INVALID_ARGUMENT;
    *mhz = clocks_mhz[type];
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetMaxClockInfo)(nvmlDevice_t device, unsigned type, unsigned *mhz)
{
    BOARD_CALL(device)
    if (type >= 4) return NVML_ERROR_INVALID_ARGUMENT;
    *mhz = clocks_mhz[type] + 225;
    return NVML_SUCCESS;
}

GET_ONE(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, BOARD_CALL, 3)
GET_ONE(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, BOARD_CALL, 4)
GET_ONE(nvmlDeviceGetCurrPcieLinkWidth, unsigned, BOARD_CALL, 8)
GET_ONE(nvmlDeviceGetMaxPcieLinkWidth, unsigned, BOARD_CALL, 16)
GET_ONE(nvmlDeviceGetFanSpeed, unsigned, BOARD_CALL, 30)
GET_ONE(nvmlDeviceGetNumFans, unsigned, BOARD_CALL, 1)
GET_ONE(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, BOARD_CALL, 0)
GET_ONE(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, BOARD_CALL, 0)

NVML(nvmlDeviceGetPcieThroughput)(nvmlDevice_t device, unsigned counter_type, unsigned *kib_per_second)
{
    BOARD_CALL(device)
    sleep_for(SECOND / 50); /* the real one watches a byte counter for 20 ms */
    *kib_per_second = counter_type == 0 ? 2048 : 1024;
    return NVML_SUCCESS;
}

/* --- licences --- */

NVML(nvmlDeviceGetGridLicensableFeatures_v4)(nvmlDevice_t device, nvmlGridLicensableFeatures_t *features)
{
    static const unsigned workstation = 2, vgpu = 1; /* nvmlGridLicenseFeatureCode_t */
    BOARD_CALL(device)
    *features = (nvmlGridLicensableFeatures_t){.isGridLicenseSupported = call.gpu->license != NO_LICENSE};
    if (call.gpu->license == NO_LICENSE) return NVML_SUCCESS;
    features->licensableFeaturesCount = 2;
    features->gridLicensableFeatures[0].featureCode = workstation;
    features->gridLicensableFeatures[1].featureCode = vgpu;
    features->gridLicensableFeatures[1].featureState = call.gpu->license;
    return NVML_SUCCESS;
}
