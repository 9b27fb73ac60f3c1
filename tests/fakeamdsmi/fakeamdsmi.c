/* A stand-in for libamd_smi.so: answers from a text file beside it, which is read anew at each call. See README.md. */
#define _GNU_SOURCE
#include "abi.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
enum { MOST_LINES = 128, LINE = 512 };

static bool initialised;
static int handles[MOST_LINES]; /* their addresses are the handles: of sockets and, behind them, of processors */

/* --- the file --- */

typedef struct {
    char text[MOST_LINES][LINE];
    int count;
} File;

static void load(File *file)
{
    Dl_info self;
    char path[4096];
    file->count = 0;
    if (!dladdr((void *)load, &self)) abort();
    snprintf(path, sizeof path, "%s.txt", self.dli_fname);
    FILE *stream = fopen(path, "r");
    while (stream && file->count < MOST_LINES && fgets(file->text[file->count], LINE, stream)) {
        char *line = file->text[file->count++];
        line[strcspn(line, "\n")] = 0;
    }
    if (stream) fclose(stream);
}

/* The value of a key of a line, or NULL; it ends at the next blank, or where it is quoted at the quote. */
static const char *value_of(const char *line, const char *key)
{
    static __thread char value[LINE];
    char search[64];
    snprintf(search, sizeof search, " %s=", key);
    const char *found = strstr(line, search);
    if (!found) return NULL;
    found += strlen(search);
    bool quoted = *found == '"';
    snprintf(value, sizeof value, "%s", found + quoted);
    value[strcspn(value, quoted ? "\"" : " ")] = 0;
    return value;
}

static bool is(const char *line, const char *kind)
{
    return !strncmp(line, kind, strlen(kind)) && line[strlen(kind)] == ' ';
}

static bool names(const char *line, const char *kind, const char *function)
{
    const char *named = is(line, kind) ? value_of(line, "function") : NULL;
    return named && !strcmp(named, function);
}

/* Loads the file, waits while it tells the function to hang, and gives what it tells it to answer instead. */
static Status begin(File *file, const char *function)
{
    for (bool hangs = true; hangs;) {
        load(file);
        hangs = false;
        for (int i = 0; i < file->count; i++) hangs |= names(file->text[i], "hang", function);
        if (hangs) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    for (int i = 0; i < file->count; i++)
        if (names(file->text[i], "error", function)) return atoi(value_of(file->text[i], "code"));
    return SUCCESS;
}

/* --- sockets and processors: lines of the kind "processor", in their order --- */

static int socket_of(const char *line)
{
    const char *told = value_of(line, "socket");
    return told ? atoi(told) : 0;
}

static const char *line_of(const File *file, Handle handle)
{
    int index = (int)((int *)handle - handles) - MOST_LINES / 2;
    for (int i = 0; i < file->count && handle; i++)
        if (is(file->text[i], "processor") && !index--) return file->text[i];
    return NULL;
}

static Status begin_of(File *file, const char *function, Handle handle, const char **line)
{
    Status status = begin(file, function);
    if (status) return status;
    if (!initialised) return NOT_INIT;
    *line = line_of(file, handle);
    return *line ? SUCCESS : NOT_FOUND;
}

static Status number(const char *function, Handle handle, const char *key, uint64_t *into)
{
    static __thread File file;
    const char *line;
    if (!into) return INVAL;
    Status status = begin_of(&file, function, handle, &line);
    if (status) return status;
    const char *told = value_of(line, key);
    if (!told) return NOT_SUPPORTED;
    *into = strtoull(told, NULL, 10);
    return SUCCESS;
}

static Status list(uint32_t *count, Handle *into, const int *found, uint32_t known)
{
    if (!count) return INVAL;
    for (uint32_t i = 0; into && i < known && i < *count; i++) into[i] = &handles[found[i]];
    *count = known;
    return SUCCESS;
}

EXPORT Status amdsmi_init(uint64_t flags)
{
    static __thread File file;
    Status status = begin(&file, __func__);
    if (!status) initialised = flags & INIT_GPUS;
    return status;
}

EXPORT Status amdsmi_shut_down(void)
{
    initialised = false;
    return SUCCESS;
}

EXPORT int fakeamdsmi_initialised(void)
{
    return initialised;
}

EXPORT Status amdsmi_get_lib_version(Version *into)
{
    if (!into) return INVAL;
#if MAJOR < 26
    *into = (Version){MAJOR, 7, 1, 0, "fake"};
#else
    into->major = MAJOR;
    into->minor = 0;
    into->release = 2;
    into->build = "fake";
#endif
    return SUCCESS;
}

EXPORT Status amdsmi_get_socket_handles(uint32_t *count, Handle *into)
{
    static __thread File file;
    int found[MOST_LINES];
    Status status = begin(&file, __func__);
    if (status) return status;
    uint32_t known = 0;
    for (int i = 0; i < file.count; i++) {
        if (!is(file.text[i], "processor")) continue;
        int socket = socket_of(file.text[i]);
        bool met = false;
        for (uint32_t k = 0; k < known; k++) met |= found[k] == socket;
        if (!met) found[known++] = socket;
    }
    return list(count, into, found, known);
}

EXPORT Status amdsmi_get_processor_handles(Handle socket, uint32_t *count, Handle *into)
{
    static __thread File file;
    int found[MOST_LINES], place = 0;
    Status status = begin(&file, __func__);
    if (status) return status;
    uint32_t known = 0;
    for (int i = 0; i < file.count; i++) {
        if (!is(file.text[i], "processor")) continue;
        if (&handles[socket_of(file.text[i])] == socket) found[known++] = MOST_LINES / 2 + place;
        place++;
    }
    return list(count, into, found, known);
}

/* --- what a processor tells --- */

EXPORT Status amdsmi_get_processor_type(Handle handle, int *into)
{
    static __thread File file;
    const char *line;
    Status status = begin_of(&file, __func__, handle, &line);
    if (!status) *into = value_of(line, "cpu") ? PROCESSOR_CPU : PROCESSOR_GPU;
    return status;
}

EXPORT Status amdsmi_get_gpu_device_bdf(Handle handle, uint64_t *into)
{
    static __thread File file;
    const char *line;
    unsigned domain, bus, device, function;
    Status status = begin_of(&file, __func__, handle, &line);
    if (status) return status;
    if (sscanf(value_of(line, "bdf"), "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4) abort();
    *into = (uint64_t)domain << 16 | bus << 8 | device << 3 | function;
    return SUCCESS;
}

EXPORT Status amdsmi_get_gpu_memory_total(Handle handle, int type, uint64_t *into)
{
    return type == MEMORY_VRAM ? number(__func__, handle, "total", into) : NOT_SUPPORTED;
}

EXPORT Status amdsmi_get_gpu_memory_usage(Handle handle, int type, uint64_t *into)
{
    return type == MEMORY_VRAM ? number(__func__, handle, "used", into) : NOT_SUPPORTED;
}

EXPORT Status amdsmi_get_energy_count(Handle handle, uint64_t *count, float *resolution, uint64_t *stamp)
{
    if (!resolution || !stamp) return INVAL;
    *resolution = 15.3f; /* microjoules */
    *stamp = 1;
    return number(__func__, handle, "energy", count);
}

EXPORT Status amdsmi_get_temp_metric(Handle handle, int sensor, int metric, int64_t *into)
{
    static const char *const keys[] = {"edge", "junction", "memory"};
    if (metric != METRIC_CURRENT || sensor < 0 || sensor > 2) return NOT_SUPPORTED;
    return number(__func__, handle, keys[sensor], (uint64_t *)into);
}

EXPORT Status amdsmi_get_power_info(Handle handle, Power *into)
{
    uint64_t watts;
    Status status = number(__func__, handle, "power", &watts);
    if (status) return status;
    *into = (Power){
#if MAJOR >= 25
        .socket_power = watts,
#endif
        .current_socket_power = MAJOR < 26 ? 0xFFFF : 0xFFFFFFFF, /* this kind of board has an average only */
        .average_socket_power = (uint32_t)watts,
    };
    return SUCCESS;
}

EXPORT Status amdsmi_get_gpu_activity(Handle handle, Activity *into)
{
    uint64_t percent;
    Status status = number(__func__, handle, "activity", &percent);
    if (!status) *into = (Activity){.gfx_activity = (uint32_t)percent, .umc_activity = UINT32_MAX, .mm_activity = UINT32_MAX};
    return status;
}

EXPORT Status amdsmi_get_gpu_kfd_info(Handle handle, Kfd *into)
{
    uint64_t partition;
    Status status = number(__func__, handle, "partition", &partition);
    if (!status) *into = (Kfd){.current_partition_id = (uint32_t)partition};
    return status;
}

EXPORT Status amdsmi_get_gpu_asic_info(Handle handle, Asic *into)
{
    static __thread File file;
    const char *line;
    Status status = begin_of(&file, __func__, handle, &line);
    if (status) return status;
    const char *name = value_of(line, "name");
    memset(into, 0, sizeof *into);
    snprintf(into->market_name, sizeof into->market_name, "%s", name ? name : "");
    return SUCCESS;
}
