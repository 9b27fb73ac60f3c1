/* Field values, ring samples and ECC: what is asked for by number. */
#include "fake.h"

enum { ECC_SINGLE = 3, ECC_DOUBLE = 4, MEMORY_TEMP = 82, ENERGY = 83, POWER_AVERAGE = 185, POWER_INSTANT = 186, ENERGY_2 = 191 };

/* Counters that a board has even when the scenario says nothing of them. */
static bool is_zero_counter(unsigned id)
{
    static const unsigned ids[] = {ECC_SINGLE, ECC_DOUBLE, 29, 30, 31, 38, 45, 52, 59, 94, 230, 74, 76, 138, 139, 140, 141, 142, 143, 144, 145, 197, 198, 251, 252, 253, 269, 270, 271};
    for (unsigned i = 0; i < sizeof ids / sizeof *ids; i++)
        if (ids[i] == id) return true;
    return false;
}

static const Field *find_field(const Gpu *gpu, unsigned id, unsigned scope)
{
    for (unsigned i = 0; i < gpu->field_count; i++)
        if (gpu->fields[i].id == id && gpu->fields[i].scope == scope) return &gpu->fields[i];
    return NULL;
}

/* `value + rate * seconds since the driver was loaded`; an `uint` wraps as a 32-bit register does. */
static nvmlValue_t field_value(const Call *call, const Field *field)
{
    nvmlValue_t value = {.ullVal = 0};
    double now = field->value + field->rate * (double)(call->now - call->scenario->loaded) / SECOND;
    if (field->type == VALUE_DOUBLE) value.dVal = now;
    else if (field->type == VALUE_UINT) value.uiVal = (unsigned)(unsigned long long)now;
    else value.ullVal = (unsigned long long)now;
    return value;
}

static void answer_number(nvmlFieldValue_t *answer, unsigned type, unsigned long long value)
{
    answer->nvmlReturn = NVML_SUCCESS;
    answer->valueType = type;
    answer->value.ullVal = value;
}

static void answer_field(Call *call, nvmlFieldValue_t *answer)
{
    const Field *field = find_field(call->gpu, answer->fieldId, answer->scopeId);
    answer->timestamp = call->now / 1000;
    answer->latencyUsec = 7;
    answer->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    if (field) {
        answer->valueType = field->type;
        answer->nvmlReturn = field->error;
        answer->value = field_value(call, field);
    } else if ((answer->fieldId == ENERGY || answer->fieldId == ENERGY_2) && call->gpu->energy)
        answer_number(answer, VALUE_ULONGLONG, energy_mj(call));
    else if (answer->fieldId == POWER_AVERAGE || answer->fieldId == POWER_INSTANT)
        answer_number(answer, VALUE_UINT, power_now_mw(call));
    else if (answer->fieldId == MEMORY_TEMP) answer_number(answer, VALUE_UINT, call->gpu->memory_temperature);
    else if (is_zero_counter(answer->fieldId)) answer_number(answer, VALUE_ULONGLONG, 0);
}

NVML(nvmlDeviceGetFieldValues)(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    BOARD_CALL(device)
    if (count < 1 || !values) return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < count; i++) {
        call_costs(&call, (int)values[i].fieldId);
        answer_field(&call, &values[i]);
    }
    return NVML_SUCCESS;
}

/* --- ECC --- */

static unsigned long long ecc_errors(Call *call, unsigned error_type)
{
    nvmlFieldValue_t answer = {.fieldId = error_type ? ECC_DOUBLE : ECC_SINGLE};
    answer_field(call, &answer);
    return answer.nvmlReturn == NVML_SUCCESS ? answer.value.ullVal : 0;
}

NVML(nvmlDeviceGetTotalEccErrors)(nvmlDevice_t device, unsigned error_type, unsigned counter_type, unsigned long long *errors)
{
    BOARD_CALL(device)
    (void)counter_type;
    *errors = ecc_errors(&call, error_type);
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetMemoryErrorCounter)(nvmlDevice_t device, unsigned error_type, unsigned counter_type, unsigned location,
                                      unsigned long long *errors)
{
    BOARD_CALL(device)
    (void)counter_type;
    *errors = location == 2 ? ecc_errors(&call, error_type) : 0; /* all of them in the device memory */
    return NVML_SUCCESS;
}

/* --- samples --- */

enum { POWER_SAMPLES, CORE_SAMPLES, DECODER_SAMPLES = 4, PROCESSOR_CLOCK_SAMPLES, MEMORY_CLOCK_SAMPLES, SAMPLE_TYPES };

static unsigned sample_value(const Gpu *gpu, const Sample *sample, unsigned type)
{
    if (type == POWER_SAMPLES) return power_of_share(gpu, sample->share[CORE] / 10000.0);
    if (type == PROCESSOR_CLOCK_SAMPLES) return 1755;
    if (type == MEMORY_CLOCK_SAMPLES) return 2619;
    return sample->share[type - CORE_SAMPLES] / 100;
}

NVML(nvmlDeviceGetSamples)(nvmlDevice_t device, unsigned type, unsigned long long last_seen, unsigned *value_type,
                           unsigned *count, nvmlSample_t *samples)
{
    BOARD_CALL(device)
    if (!count || !value_type) return NVML_ERROR_INVALID_ARGUMENT;
    if (type >= SAMPLE_TYPES || call.gpu->mig) return NVML_ERROR_NOT_SUPPORTED;
    call_costs(&call, (int)type);
    *value_type = VALUE_UINT;
    if (!samples) {
        *count = call.gpu->probe;
        return NVML_SUCCESS;
    }
    Ring ring = ring_open(&call, last_seen);
    unsigned written = 0;
    for (int64_t number = ring.first; number <= ring.last && written < *count; number++) {
        const Sample *sample = ring_sample(&ring, number);
        if (!sample) continue;
        samples[written].timeStamp = sample_timestamp_us(call.gpu, number);
        samples[written++].sampleValue.ullVal = sample_value(call.gpu, sample, type);
    }
    ring_close(&ring);
    *count = written;
    return written ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
