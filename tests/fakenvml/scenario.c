/* Reads the scenario file. A reader function takes what it knows from a line; what nobody took is a mistake. */
#include "fake.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_KEYS = 40 };

typedef struct {
    unsigned number;
    uint64_t key; /* hash of the line as written */
    const char *kind;
    const char *names[MAX_KEYS], *values[MAX_KEYS];
    bool taken[MAX_KEYS];
    unsigned count;
} Line;

static _Noreturn void wrong(const Line *line, const char *what, const char *which)
{
    fprintf(stderr, "fakenvml: scenario line %u (%s): %s: %s\n", line->number, line->kind, what, which);
    abort();
}

uint64_t mix(uint64_t value) /* splitmix64 */
{
    value += 0x9E3779B97F4A7C15ull;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
    return value ^ (value >> 31);
}

static uint64_t hash_text(uint64_t seed, const char *text)
{
    for (; *text; text++) seed = (seed ^ (unsigned char)*text) * 0x100000001B3ull;
    return seed;
}

/* --- values --- */

static const char *text_of(Line *line, const char *name, const char *otherwise)
{
    for (unsigned i = 0; i < line->count; i++) {
        if (!strcmp(line->names[i], name)) {
            line->taken[i] = true;
            return line->values[i];
        }
    }
    return otherwise;
}

static unsigned long long number_of(Line *line, const char *name, unsigned long long otherwise)
{
    const char *text = text_of(line, name, NULL);
    if (!text) return otherwise;
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end) wrong(line, "not a whole number", name);
    return value;
}

static double real_of(Line *line, const char *name, double otherwise)
{
    const char *text = text_of(line, name, NULL);
    if (!text) return otherwise;
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end) wrong(line, "not a number", name);
    return value;
}

/* A decimal number times 10^9, exactly: seconds to nanoseconds, a ratio to parts of 10^9. "-" is without end. */
static int64_t billionths_of(Line *line, const char *name, int64_t otherwise)
{
    const char *text = text_of(line, name, NULL);
    if (!text) return otherwise;
    if (!strcmp(text, "-")) return FOR_EVER;
    int64_t sign = *text == '-' ? (text++, -1) : 1;
    char *end;
    int64_t value = strtoll(text, &end, 10) * SECOND;
    if (*end == '.') {
        int64_t unit = SECOND / 10;
        for (end++; *end >= '0' && *end <= '9'; end++, unit /= 10) value += (*end - '0') * unit;
    }
    if (end == text || *end) wrong(line, "not a decimal number", name);
    return sign * value;
}

static unsigned choice_of(Line *line, const char *name, const char *const choices[], unsigned count)
{
    const char *text = text_of(line, name, choices[0]);
    for (unsigned i = 0; i < count; i++)
        if (!strcmp(text, choices[i])) return i;
    wrong(line, "not one of its values", name);
}

static Gpu *gpu_of(Line *line, Scenario *scenario, const char *name)
{
    unsigned long long index = number_of(line, name, MAX_GPUS);
    if (index >= MAX_GPUS) wrong(line, "not a GPU", name);
    return &scenario->gpus[index];
}

static int instance_of(Line *line)
{
    int instance = (int)number_of(line, "instance", (unsigned long long)MAX_INSTANCES);
    return instance < MAX_INSTANCES ? instance : WHOLE;
}

/* One more element at the end of an array. */
#define APPEND(array, count) \
    ((array) = realloc((array), ((count) + 1) * sizeof *(array)), &(array)[(count)++])

/* --- records --- */

static void read_driver(Line *line, Scenario *scenario)
{
    scenario->driver = text_of(line, "version", scenario->driver);
    scenario->cuda = (int)number_of(line, "cuda", 13000);
    scenario->loaded = billionths_of(line, "loaded", 0);
}

static void read_clock(Line *line, Scenario *scenario)
{
    scenario->frozen = billionths_of(line, "now", 0);
    scenario->offset = billionths_of(line, "offset", 0);
    scenario->monotonic = number_of(line, "monotonic", 0);
}

static void read_gpu(Line *line, Scenario *scenario)
{
    static const char *const rules[] = {"last", "end", "longest", "random"};
    Gpu *gpu = gpu_of(line, scenario, "index");
    gpu->present = true;
    gpu->uuid = text_of(line, "uuid", "GPU-0");
    gpu->name = text_of(line, "name", "NVIDIA H100 80GB HBM3");
    gpu->pci = text_of(line, "pci", "00000000:01:00.0");
    gpu->minor = (unsigned)number_of(line, "minor", (unsigned)(gpu - scenario->gpus));
    gpu->memory = number_of(line, "memory", 80ull << 30);
    gpu->reserved = number_of(line, "reserved", 512ull << 20);
    gpu->used = number_of(line, "used", NVML_NOT_AVAILABLE);
    gpu->power_mw = (unsigned)number_of(line, "power_mw", 350000);
    gpu->idle_mw = (unsigned)number_of(line, "idle_mw", 70000);
    gpu->module_mw = (unsigned)number_of(line, "module_mw", 0);
    gpu->limit_mw = (unsigned)number_of(line, "limit_mw", 400000);
    gpu->temperature = (unsigned)number_of(line, "temperature", 50);
    gpu->memory_temperature = (unsigned)number_of(line, "memory_temperature", 60);
    gpu->ring = (unsigned)number_of(line, "ring", 72);
    gpu->sleeps = number_of(line, "sleeps", 0);
    gpu->inherits = number_of(line, "inherits", 0);
    gpu->probe = (unsigned)number_of(line, "probe", gpu->ring);
    gpu->rates = (unsigned)number_of(line, "rates", UINT_MAX);
    gpu->rule = choice_of(line, "rule", rules, 4);
    gpu->sample_period = billionths_of(line, "sample_period", 166666667);
    gpu->sample_offset = billionths_of(line, "sample_offset", 0);
    gpu->slice = billionths_of(line, "slice", 2000000);
    gpu->energy = number_of(line, "energy", 1) != 0;
    gpu->energy_step = billionths_of(line, "energy_step", SECOND / 10);
    gpu->mig = number_of(line, "mig", 2) == 1;
    gpu->mig_capable = number_of(line, "mig", 2) < 2;
    gpu->slices = (unsigned)number_of(line, "slices", 7);
    gpu->gpm = number_of(line, "gpm", 1) != 0;
    gpu->gpm_activity = number_of(line, "gpm_activity", 1) != 0;
    gpu->gpm_still = number_of(line, "gpm_still", 0) != 0;
    gpu->license = (unsigned)number_of(line, "license", NO_LICENSE);
    if (!gpu->ring || gpu->ring > MAX_RING || gpu->sample_period <= 0 || gpu->slice <= 0 || gpu->energy_step <= 0)
        wrong(line, "must be above 0", "ring, sample_period, slice or energy_step");
}

static void read_instance(Line *line, Scenario *scenario)
{
    Gpu *gpu = gpu_of(line, scenario, "gpu");
    unsigned long long index = number_of(line, "index", 0);
    if (index >= MAX_INSTANCES) wrong(line, "too great", "index");
    Instance *instance = &gpu->instances[index];
    instance->present = true;
    instance->uuid = text_of(line, "uuid", "MIG-0");
    instance->profile = text_of(line, "profile", "1g.10gb");
    instance->gi = (unsigned)number_of(line, "gi", index + 1);
    instance->ci = (unsigned)number_of(line, "ci", 0);
    instance->slices = (unsigned)number_of(line, "slices", 1);
    instance->compute = (unsigned)number_of(line, "compute", instance->slices);
    instance->sms = (unsigned)number_of(line, "sms", 14);
    instance->start = (unsigned)number_of(line, "start", index);
    instance->memory = number_of(line, "memory", 10ull << 30);
}

static void read_process(Line *line, Scenario *scenario)
{
    static const char *const kinds[] = {"compute", "graphics", "mps"};
    Gpu *gpu = gpu_of(line, scenario, "gpu");
    bool unknown = !strcmp(text_of(line, "memory", "0"), "na");
    Process process = {.pid = (unsigned)number_of(line, "pid", 0),
                       .kind = choice_of(line, "kind", kinds, 3),
                       .name = text_of(line, "name", "python3"),
                       .instance = instance_of(line),
                       .start = billionths_of(line, "start", 0),
                       .end = billionths_of(line, "end", FOR_EVER),
                       .memory = unknown ? NVML_NOT_AVAILABLE : number_of(line, "memory", 0)};
    *APPEND(gpu->processes, gpu->process_count) = process;
}

static void read_work(Line *line, Scenario *scenario)
{
    static const char *const engines[ENGINES] = {"core", "memory", "encoder", "decoder"};
    Gpu *gpu = gpu_of(line, scenario, "gpu");
    Work work = {.pid = (unsigned)number_of(line, "pid", 0),
                 .instance = instance_of(line),
                 .start = billionths_of(line, "start", 0),
                 .end = billionths_of(line, "end", FOR_EVER),
                 .period = billionths_of(line, "period", 0),
                 .phase = billionths_of(line, "phase", 0)};
    work.busy = (int64_t)((__int128)work.period * billionths_of(line, "duty", SECOND) / SECOND);
    for (int engine = 0; engine < ENGINES; engine++)
        work.weight[engine] = real_of(line, engines[engine], engine == CORE);
    if (work.period < 0 || work.phase < 0) wrong(line, "must not be negative", "period or phase");
    *APPEND(gpu->works, gpu->work_count) = work;
}

static void read_fault(Line *line, Scenario *scenario, unsigned kind)
{
    Fault fault = {.kind = kind,
                   .code = (unsigned)number_of(line, "code", NVML_ERROR_UNKNOWN),
                   .function = text_of(line, "function", NULL),
                   .gpu = text_of(line, "gpu", NULL) ? (int)number_of(line, "gpu", 0) : ANY_GPU,
                   .count = (int64_t)number_of(line, "count", INT64_MAX),
                   .skip = (int64_t)number_of(line, "skip", 0),
                   .duration = billionths_of(line, "seconds", 0),
                   .key = line->key};
    if (!fault.function) wrong(line, "missing", "function");
    text_of(line, "id", NULL);
    *APPEND(scenario->faults, scenario->fault_count) = fault;
}

static void read_field(Line *line, Scenario *scenario)
{
    static const char *const types[] = {"ulonglong", "uint", "double"};
    static const unsigned codes[] = {VALUE_ULONGLONG, VALUE_UINT, VALUE_DOUBLE};
    Gpu *gpu = gpu_of(line, scenario, "gpu");
    Field field = {.id = (unsigned)number_of(line, "id", 0),
                   .scope = (unsigned)number_of(line, "scope", 0),
                   .type = codes[choice_of(line, "type", types, 3)],
                   .value = real_of(line, "value", 0),
                   .rate = real_of(line, "rate", 0),
                   .error = (nvmlReturn_t)number_of(line, "error", 0)};
    *APPEND(gpu->fields, gpu->field_count) = field;
}

static void read_xid(Line *line, Scenario *scenario)
{
    Gpu *gpu = gpu_of(line, scenario, "gpu");
    Xid xid = {.code = (unsigned)number_of(line, "code", 0), .at = billionths_of(line, "at", 0), .key = line->key};
    *APPEND(gpu->xids, gpu->xid_count) = xid;
}

static void read_row(Line *line, Scenario *scenario)
{
    Gpu *gpu = gpu_of(line, scenario, "gpu");
    Row row = {.pid = (unsigned)number_of(line, "pid", 0),
               .timestamp = number_of(line, "at_us", 0),
               .sum = {[CORE] = number_of(line, "core", 0),
                       [MEMORY] = number_of(line, "memory", 0),
                       [ENCODER] = number_of(line, "encoder", 0),
                       [DECODER] = number_of(line, "decoder", 0)}};
    *APPEND(gpu->rows, gpu->row_count) = row;
}

static void read_limit(Line *line, Scenario *scenario)
{
    Gpu *gpu = gpu_of(line, scenario, "gpu");
    Limit limit = {.cgroup = text_of(line, "cgroup", "/"),
                   .soft = number_of(line, "soft", 0),
                   .hard = number_of(line, "hard", NVML_NOT_AVAILABLE),
                   .used = number_of(line, "used", 0)};
    *APPEND(gpu->limits, gpu->limit_count) = limit;
}

static void read_price(Line *line, Scenario *scenario)
{
    Price price = {.function = text_of(line, "function", NULL),
                   .key = text_of(line, "key", NULL) ? (int)number_of(line, "key", 0) : -1,
                   .whole = billionths_of(line, "us", 0) / 1000000,
                   .each = billionths_of(line, "process_us", 0) / 1000000};
    if (!price.function) wrong(line, "missing", "function");
    *APPEND(scenario->prices, scenario->price_count) = price;
}

static void read_record(Line *line, Scenario *scenario)
{
    const char *kind = line->kind;
    if (!strcmp(kind, "driver")) read_driver(line, scenario);
    else if (!strcmp(kind, "clock")) read_clock(line, scenario);
    else if (!strcmp(kind, "gpu")) read_gpu(line, scenario);
    else if (!strcmp(kind, "instance")) read_instance(line, scenario);
    else if (!strcmp(kind, "process")) read_process(line, scenario);
    else if (!strcmp(kind, "work")) read_work(line, scenario);
    else if (!strcmp(kind, "error")) read_fault(line, scenario, FAULT_ERROR);
    else if (!strcmp(kind, "delay")) read_fault(line, scenario, FAULT_DELAY);
    else if (!strcmp(kind, "hang")) read_fault(line, scenario, FAULT_HANG);
    else if (!strcmp(kind, "price")) read_price(line, scenario);
    else if (!strcmp(kind, "field")) read_field(line, scenario);
    else if (!strcmp(kind, "xid")) read_xid(line, scenario);
    else if (!strcmp(kind, "limit")) read_limit(line, scenario);
    else if (!strcmp(kind, "row")) read_row(line, scenario);
    else if (!strcmp(kind, "lost")) gpu_of(line, scenario, "gpu")->lost = true;
    else if (!strcmp(kind, "garbage"))
        gpu_of(line, scenario, "gpu")->garbage = (unsigned)number_of(line, "rows", 4);
    else wrong(line, "unknown kind", kind);
    for (unsigned i = 0; i < line->count; i++)
        if (!line->taken[i]) wrong(line, "unknown key", line->names[i]);
}

/* --- the file --- */

/* Cuts one `key=value` or `key="value"` off; NULL at the end of the line. */
static char *cut_pair(char *text, Line *line)
{
    text += strspn(text, " \t");
    if (!*text || *text == '#') return NULL;
    if (line->count == MAX_KEYS) wrong(line, "too many keys", text);
    char *equals = strchr(text, '=');
    if (!equals) wrong(line, "no '=' in", text);
    *equals = 0;
    char *value = equals + 1;
    char *end = *value == '"' ? strchr(++value, '"') : value + strcspn(value, " \t");
    if (!end) wrong(line, "no closing quote", text);
    line->names[line->count] = text;
    line->values[line->count++] = value;
    if (!*end) return end;
    *end = 0;
    return end + 1;
}

static void read_line(char *text, unsigned number, Scenario *scenario)
{
    text += strspn(text, " \t");
    if (!*text || *text == '#') return;
    Line line = {.number = number, .key = hash_text(14695981039346656037ull, text), .kind = text};
    text += strcspn(text, " \t");
    if (*text) *text++ = 0;
    while (text) text = cut_pair(text, &line);
    read_record(&line, scenario);
}

/* Gives each unit its works and numbers their users. */
static void fill_unit(Gpu *gpu, int instance)
{
    Unit *unit = &gpu->units[1 + instance];
    pthread_mutex_init(&unit->lock, NULL);
    unit->newest = INT64_MIN;
    for (unsigned i = 0; i < gpu->work_count; i++) {
        if (gpu->works[i].instance != instance) continue;
        Work *work = APPEND(unit->works, unit->work_count);
        *work = gpu->works[i];
        unsigned user = 0;
        while (user < unit->user_count && unit->pids[user] != work->pid) user++;
        if (user == unit->user_count) {
            unit->latest = realloc(unit->latest, (user + 1) * sizeof *unit->latest);
            unit->latest[user] = -1;
            *APPEND(unit->pids, unit->user_count) = work->pid;
        }
        work->user = user;
        work->sibling = unit->latest[user];
        unit->latest[user] = (int)unit->work_count - 1;
    }
}

static void finish(Scenario *scenario)
{
    while (scenario->gpu_count < MAX_GPUS && scenario->gpus[scenario->gpu_count].present) scenario->gpu_count++;
    for (unsigned index = scenario->gpu_count; index < MAX_GPUS; index++) {
        Gpu *gpu = &scenario->gpus[index];
        if (gpu->present || gpu->work_count || gpu->process_count || gpu->lost) {
            fprintf(stderr, "fakenvml: scenario: GPU %u is described, GPU %u is not\n", index, scenario->gpu_count);
            abort();
        }
    }
    for (unsigned index = 0; index < scenario->gpu_count; index++)
        for (int instance = WHOLE; instance < MAX_INSTANCES; instance++)
            fill_unit(&scenario->gpus[index], instance);
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file) return NULL;
    char *text = NULL;
    size_t length = 0, got;
    do {
        text = realloc(text, length + 65537);
        got = fread(text + length, 1, 65536, file);
        length += got;
    } while (got);
    text[length] = 0;
    fclose(file);
    return text;
}

Scenario *scenario_read(const char *path)
{
    char *text = read_text(path);
    if (!text) return NULL;
    Scenario *scenario = calloc(1, sizeof *scenario);
    scenario->text = text;
    scenario->driver = "580.65.06";
    scenario->cuda = 13000;
    unsigned number = 1;
    for (char *line = text; line; number++) {
        char *end = strchr(line, '\n');
        if (end) *end++ = 0;
        read_line(line, number, scenario);
        line = end;
    }
    finish(scenario);
    /* A fault's counters belong to its text in this file, not to the same text in another test's file. */
    for (unsigned i = 0; i < scenario->fault_count; i++)
        scenario->faults[i].key = hash_text(scenario->faults[i].key, path);
    return scenario;
}

void scenario_free(Scenario *scenario)
{
    for (unsigned index = 0; index < scenario->gpu_count; index++) {
        Gpu *gpu = &scenario->gpus[index];
        for (int unit = 0; unit <= MAX_INSTANCES; unit++) {
            pthread_mutex_destroy(&gpu->units[unit].lock);
            free(gpu->units[unit].works);
            free(gpu->units[unit].pids);
            free(gpu->units[unit].latest);
            free(gpu->units[unit].ring);
        }
        free(gpu->processes);
        free(gpu->fields);
        free(gpu->xids);
        free(gpu->rows);
        free(gpu->limits);
        free(gpu->works);
    }
    free(scenario->faults);
    free(scenario->prices);
    free(scenario->text);
    free(scenario);
}

int64_t scenario_now(const Scenario *scenario)
{
    if (scenario->frozen) return scenario->frozen;
    struct timespec now;
    clock_gettime(scenario->monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME, &now);
    return now.tv_sec * SECOND + now.tv_nsec + scenario->offset;
}
