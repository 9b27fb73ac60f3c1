/* What callers of libamd_smi share with it, of the functions that are here: numbers and layouts as the public header's
 * documentation has them, for ROCm 6.1 to 6.3 (AMD SMI 24), 6.4 (25) and 7 (26). MAJOR chooses. */
#ifndef ABI_H
#define ABI_H

#include <stdint.h>

typedef void *Handle;
typedef int Status;

enum { SUCCESS = 0, INVAL = 1, NOT_SUPPORTED = 2, NOT_FOUND = 31, NOT_INIT = 32 };
enum { PROCESSOR_GPU = 1, PROCESSOR_CPU = 2 };
enum { INIT_GPUS = 2 };
enum { MEMORY_VRAM = 0 };
enum { METRIC_CURRENT = 0 };

#if MAJOR < 26
typedef struct {
    uint32_t year, major, minor, release;
    const char *build;
} Version;
#else
typedef struct {
    uint32_t major, minor, release;
    const char *build;
} Version;
#endif

#if MAJOR < 25
typedef struct {
    uint32_t current_socket_power, average_socket_power, gfx_voltage, soc_voltage, mem_voltage, power_limit;
    uint32_t reserved[11];
} Power;
#define POWER_SIZE 68
#elif MAJOR < 26
typedef struct {
    uint64_t socket_power;
    uint32_t current_socket_power, average_socket_power, gfx_voltage, soc_voltage, mem_voltage, power_limit;
    uint32_t reserved[2];
} Power;
#define POWER_SIZE 40
#else
typedef struct {
    uint64_t socket_power;
    uint32_t current_socket_power, average_socket_power;
    uint64_t gfx_voltage, soc_voltage, mem_voltage;
    uint32_t power_limit;
    uint64_t reserved[18];
} Power;
#define POWER_SIZE 192
#endif

typedef struct {
    uint32_t gfx_activity, umc_activity, mm_activity, reserved[13];
} Activity;

typedef struct {
    uint64_t kfd_id;
    uint32_t node_id, current_partition_id, reserved[12];
} Kfd;

#define NAME_SIZE 256
typedef struct {
    char market_name[NAME_SIZE];
#if MAJOR < 25
    char rest[456 - NAME_SIZE]; /* ROCm 6.3 */
#else
    char rest[896 - NAME_SIZE];
#endif
} Asic;

_Static_assert(sizeof(Version) == 24, "amdsmi_version_t");
_Static_assert(sizeof(Power) == POWER_SIZE, "amdsmi_power_info_t");
_Static_assert(sizeof(Activity) == 64, "amdsmi_engine_usage_t");
_Static_assert(sizeof(Kfd) == 64, "amdsmi_kfd_info_t");

#endif
