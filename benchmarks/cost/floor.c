/* The floor: what the bare system calls and NVML calls of a cycle cost, without anything made of their answers.
 *
 * floor walk FOLDER PASSES   lists every directory below FOLDER and reads every cgroup.procs
 * floor known FOLDER PASSES  the same files, opened by paths that are known: no listing
 * floor lookup PASSES        opens and reads /proc/PID/cgroup and /proc/PID/stat of the PIDs on standard input
 * floor nvml LIBRARY PASSES  of each GPU its samples and those of its processes of the last second, memory and processes
 *
 * Prints the CPU microseconds of each pass, one a line. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_PIDS = 1 << 15, MAX_FILES = 1 << 16 };

static char content[1 << 16];
static char *files[MAX_FILES];
static int file_count;

static int64_t cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void read_at(int folder, const char *path)
{
    int file = openat(folder, path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    while (read(file, content, sizeof content) > 0) continue;
    close(file);
}

/* --- cgroups --- */

static void walk(int folder, const char *path, int keep)
{
    char below[4096];
    read_at(folder, "cgroup.procs");
    if (keep && file_count < MAX_FILES && asprintf(&files[file_count], "%s/cgroup.procs", path) > 0) file_count++;
    DIR *listing = fdopendir(folder);
    if (!listing) return;
    for (struct dirent *entry; (entry = readdir(listing));) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
        int child = openat(folder, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        if (child >= 0) walk(child, below, keep);
    }
    closedir(listing);
}

static void walk_from(const char *path, int keep)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) walk(folder, path, keep);
}

static void read_known(void)
{
    for (int i = 0; i < file_count; i++) read_at(AT_FDCWD, files[i]);
}

/* --- processes --- */

static char *pids[MAX_PIDS];
static int pid_count;

static void read_pids(void)
{
    char line[64], path[128];
    while (fgets(line, sizeof line, stdin) && pid_count < MAX_PIDS) {
        line[strcspn(line, "\n")] = 0;
        snprintf(path, sizeof path, "/proc/%s/", line);
        pids[pid_count++] = strdup(path);
    }
}

static void look_up(void)
{
    char path[160];
    for (int i = 0; i < pid_count; i++) {
        snprintf(path, sizeof path, "%scgroup", pids[i]);
        read_at(AT_FDCWD, path);
        snprintf(path, sizeof path, "%sstat", pids[i]);
        read_at(AT_FDCWD, path);
    }
}

/* --- NVML --- */

typedef void *Device;
static unsigned gpus;
static Device devices[64];
static int (*samples)(Device, int, unsigned long long, int *, unsigned *, void *);
static int (*utilization)(Device, void *, unsigned *, unsigned long long);
static int (*running)(Device, unsigned *, void *);
static int (*memory)(Device, void *);

static void open_nvml(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    int (*init)(void) = (int (*)(void))dlsym(library, "nvmlInit_v2");
    int (*count)(unsigned *) = (int (*)(unsigned *))dlsym(library, "nvmlDeviceGetCount_v2");
    int (*handle)(unsigned, Device *) = (int (*)(unsigned, Device *))dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    samples = (int (*)(Device, int, unsigned long long, int *, unsigned *, void *))dlsym(library, "nvmlDeviceGetSamples");
    utilization = (int (*)(Device, void *, unsigned *, unsigned long long))dlsym(library, "nvmlDeviceGetProcessUtilization");
    running = (int (*)(Device, unsigned *, void *))dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
    memory = (int (*)(Device, void *))dlsym(library, "nvmlDeviceGetMemoryInfo");
    if (init() || count(&gpus) || gpus > 64) exit(1);
    for (unsigned gpu = 0; gpu < gpus; gpu++)
        if (handle(gpu, &devices[gpu])) exit(1);
}

static void call_nvml(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    unsigned long long since = (unsigned long long)(t.tv_sec - 1) * 1000000 + (unsigned long long)t.tv_nsec / 1000;
    for (unsigned gpu = 0; gpu < gpus; gpu++) {
        int type;
        unsigned room = 1024;
        samples(devices[gpu], 1, since, &type, &room, content);
        room = 1024;
        utilization(devices[gpu], content, &room, since);
        room = 1024;
        running(devices[gpu], &room, content);
        memory(devices[gpu], content);
    }
}

int main(int count, char **values)
{
    if (count < 3) return 2;
    const char *what = values[1];
    int passes = atoi(values[count - 1]);
    if (!strcmp(what, "known")) walk_from(values[2], 1);
    if (!strcmp(what, "lookup")) read_pids();
    if (!strcmp(what, "nvml")) open_nvml(values[2]);
    for (int pass = 0; pass < passes; pass++) {
        int64_t begun = cpu();
        if (!strcmp(what, "walk")) walk_from(values[2], 0);
        else if (!strcmp(what, "known")) read_known();
        else if (!strcmp(what, "lookup")) look_up();
        else if (!strcmp(what, "nvml")) call_nvml();
        else return 2;
        printf("%.3f\n", (double)(cpu() - begun) / 1000);
    }
    return 0;
}
