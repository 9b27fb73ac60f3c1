/* Who is there: the system, handles, names. What never changes while a board lives. */
#include "fake.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* --- the system --- */

__attribute__((visibility("default"))) const char *nvmlErrorString(unsigned code)
{
    static const char *const names[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
        "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded",
        "Timeout", "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found",
        "Corrupted infoROM", "GPU is lost", "GPU requires restart", "The operating system has blocked the request",
        "RM has detected an NVML/RM version mismatch.", "In use by another client", "Insufficient Memory", "No data",
        "The requested vgpu operation is not available on target device, becasue ECC is enabled",
        "Insufficient Resources", "Frequency Not Supported", "Argument Version Mismatch", "Deprecated", "Not Ready",
        "No GPUs found", "Invalid state"};
    return code < sizeof names / sizeof *names ? names[code] : "Unknown Error";
}

NVML(nvmlSystemGetDriverVersion)(char *version, unsigned length)
{
    CALL()
    return put_string(version, length, call.scenario->driver);
}

NVML(nvmlSystemGetNVMLVersion)(char *version, unsigned length)
{
    char text[80];
    BEGIN(NULL, false) /* nvml.h does not ask for nvmlInit here */
    snprintf(text, sizeof text, "%d.%s", call.scenario->cuda / 1000, call.scenario->driver);
    return put_string(version, length, text);
}

NVML(nvmlSystemGetCudaDriverVersion)(int *version)
{
    CALL()
    *version = call.scenario->cuda;
    return NVML_SUCCESS;
}

NVML(nvmlSystemGetCudaDriverVersion_v2)(int *version)
{
    CALL()
    *version = call.scenario->cuda;
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetCount)(unsigned *count)
{
    CALL()
    *count = call.scenario->gpu_count;
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetCount_v2)(unsigned *count)
{
    CALL()
    *count = call.scenario->gpu_count;
    return NVML_SUCCESS;
}

/* --- handles --- */

static nvmlReturn_t give_handle(const Call *call, unsigned gpu, int instance, nvmlDevice_t *device)
{
    if (call->scenario->gpus[gpu].lost) return NVML_ERROR_GPU_IS_LOST;
    *device = device_handle(gpu, instance);
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetHandleByIndex_v2)(unsigned index, nvmlDevice_t *device)
{
    /* A fault may name a GPU here too: its handle is known before it is given. */
    BEGIN(index < MAX_GPUS ? device_handle(index, WHOLE) : NULL, true)
    if (index >= call.scenario->gpu_count) return NVML_ERROR_INVALID_ARGUMENT;
    return give_handle(&call, index, WHOLE, device);
}

NVML(nvmlDeviceGetHandleByIndex)(unsigned index, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

NVML(nvmlDeviceGetHandleByUUID)(const char *uuid, nvmlDevice_t *device)
{
    CALL()
    for (unsigned gpu = 0; gpu < call.scenario->gpu_count; gpu++) {
        const Gpu *candidate = &call.scenario->gpus[gpu];
        if (!strcmp(candidate->uuid, uuid)) return give_handle(&call, gpu, WHOLE, device);
        for (int i = 0; candidate->mig && i < MAX_INSTANCES; i++)
            if (candidate->instances[i].present && !strcmp(candidate->instances[i].uuid, uuid))
                return give_handle(&call, gpu, i, device);
    }
    return NVML_ERROR_NOT_FOUND;
}

NVML(nvmlDeviceGetHandleByPciBusId_v2)(const char *bus_id, nvmlDevice_t *device)
{
    CALL()
    for (unsigned gpu = 0; gpu < call.scenario->gpu_count; gpu++)
        if (!strcasecmp(call.scenario->gpus[gpu].pci, bus_id)) return give_handle(&call, gpu, WHOLE, device);
    return NVML_ERROR_NOT_FOUND;
}

/* --- identity --- */

NVML(nvmlDeviceGetName)(nvmlDevice_t device, char *name, unsigned length)
{
    char text[96];
    DEVICE_CALL(device)
    snprintf(text, sizeof text, call.instance ? "%s MIG %s" : "%s", call.gpu->name,
             call.instance ? call.instance->profile : "");
    return put_string(name, length, text);
}

NVML(nvmlDeviceGetUUID)(nvmlDevice_t device, char *uuid, unsigned length)
{
    DEVICE_CALL(device)
    return put_string(uuid, length, call.instance ? call.instance->uuid : call.gpu->uuid);
}

NVML(nvmlDeviceGetPciInfo_v3)(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    DEVICE_CALL(device)
    memset(pci, 0, sizeof *pci);
    sscanf(call.gpu->pci, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xFFFF, pci->bus & 0xFF,
             pci->device & 0xFF);
    snprintf(pci->busId, sizeof pci->busId, "%s", call.gpu->pci);
    pci->pciDeviceId = 0x233010DE;
    return NVML_SUCCESS;
}

GET_ONE(nvmlDeviceGetIndex, unsigned, DEVICE_CALL, device->instance == WHOLE ? device->gpu : (unsigned)device->instance)
GET_ONE(nvmlDeviceGetMinorNumber, unsigned, BOARD_CALL, call.gpu->minor)
GET_ONE(nvmlDeviceGetPersistenceMode, unsigned, DEVICE_CALL, 1)
GET_ONE(nvmlDeviceGetPerformanceState, unsigned, DEVICE_CALL, 0)
GET_ONE(nvmlDeviceGetComputeMode, unsigned, DEVICE_CALL, 0)
GET_ONE(nvmlDeviceGetDisplayActive, unsigned, DEVICE_CALL, 0)
GET_ONE(nvmlDeviceGetDisplayMode, unsigned, DEVICE_CALL, 0)
GET_ONE(nvmlDeviceGetArchitecture, unsigned, DEVICE_CALL, 9) /* Hopper */
GET_ONE(nvmlDeviceGetBrand, unsigned, DEVICE_CALL, 14)       /* NVIDIA */
GET_PAIR(nvmlDeviceGetCudaComputeCapability, int, DEVICE_CALL, 9, 0)
GET_PAIR(nvmlDeviceGetEccMode, unsigned, DEVICE_CALL, 1, 1)
GET_NOTHING(nvmlDeviceGetDriverModel) /* Windows only */
GET_NOTHING(nvmlDeviceGetDriverModel_v2)
