/* The samples: what a driver's ring holds, computed from the work lines as a function of time. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

/* --- a sweep over the edges of a time span --- */

typedef struct {
    int64_t time;
    unsigned work;
    bool on;
} Edge;

typedef struct {
    double weight[ENGINES]; /* now; 0: does not use the engine */
    double since[ENGINES];  /* the engine's share clock when `used` was last brought up to date */
    double used[ENGINES];   /* ns that it was on the engine */
    int64_t last[ENGINES];  /* when it was last on the engine */
} User;

typedef struct {
    const Unit *unit;
    int64_t time; /* up to which it was swept */
    Edge *edges;
    unsigned edge_count;
    User *users;
    bool *active;                /* of each work */
    unsigned sharing[ENGINES];   /* users of each engine now */
    double share_clock[ENGINES]; /* ns that each of the engine's users got, had it been there from the start */
    double busy[ENGINES];        /* ns */
} Sweep;

static void add_edges(Sweep *sweep, unsigned work, int64_t on, int64_t off)
{
    sweep->edges = realloc(sweep->edges, (sweep->edge_count + 2) * sizeof(Edge));
    sweep->edges[sweep->edge_count++] = (Edge){on, work, true};
    sweep->edges[sweep->edge_count++] = (Edge){off, work, false};
}

/* The spans within [from, to) in which the work is active. */
static void find_edges(Sweep *sweep, unsigned number, int64_t from, int64_t to)
{
    const Work *work = &sweep->unit->works[number];
    if (work->start > from) from = work->start;
    if (work->end < to) to = work->end;
    if (from >= to) return;
    if (!work->period || work->busy >= work->period) {
        add_edges(sweep, number, from, to);
        return;
    }
    int64_t origin = work->start - work->phase;
    for (int64_t on = origin + (from - origin) / work->period * work->period; on < to; on += work->period) {
        int64_t begin = on > from ? on : from, end = on + work->busy < to ? on + work->busy : to;
        if (begin < end) add_edges(sweep, number, begin, end);
    }
}

static int compare_edges(const void *left, const void *right)
{
    const Edge *a = left, *b = right;
    return (a->time > b->time) - (a->time < b->time);
}

static void settle(Sweep *sweep, User *user, int engine)
{
    double got = sweep->share_clock[engine] - user->since[engine];
    user->since[engine] = sweep->share_clock[engine];
    if (user->weight[engine] <= 0) return;
    user->used[engine] += got;
    user->last[engine] = sweep->time;
    sweep->busy[engine] += got * user->weight[engine];
}

/* A user's weight is the greatest of its active works. */
static void reweigh(Sweep *sweep, unsigned number, int engine)
{
    User *user = &sweep->users[number];
    double weight = 0;
    for (int i = sweep->unit->latest[number]; i >= 0; i = sweep->unit->works[i].sibling) {
        const Work *work = &sweep->unit->works[i];
        if (sweep->active[i] && work->weight[engine] > weight) weight = work->weight[engine];
    }
    settle(sweep, user, engine);
    sweep->sharing[engine] += (weight > 0) - (user->weight[engine] > 0);
    user->weight[engine] = weight;
}

static void advance(Sweep *sweep, int64_t until)
{
    int64_t duration = until - sweep->time;
    sweep->time = until;
    for (int engine = 0; engine < ENGINES; engine++)
        if (sweep->sharing[engine]) sweep->share_clock[engine] += (double)duration / sweep->sharing[engine];
}

static void sweep_close(Sweep *sweep)
{
    free(sweep->edges);
    free(sweep->users);
    free(sweep->active);
}

/* Sweeps [from, to). Afterwards `weight` and `sharing` tell who is on which engine at the very end. */
static Sweep sweep_open(const Unit *unit, int64_t from, int64_t to)
{
    Sweep sweep = {.unit = unit, .time = from};
    for (unsigned i = 0; i < unit->work_count; i++) find_edges(&sweep, i, from, to);
    sweep.users = calloc(unit->user_count + 1, sizeof(User));
    sweep.active = calloc(unit->work_count + 1, sizeof(bool));
    if (!sweep.edge_count) return sweep;
    qsort(sweep.edges, sweep.edge_count, sizeof(Edge), compare_edges);
    for (unsigned i = 0; i < sweep.edge_count && sweep.edges[i].time < to; i++) {
        const Edge *edge = &sweep.edges[i];
        advance(&sweep, edge->time);
        sweep.active[edge->work] = edge->on;
        for (int engine = 0; engine < ENGINES; engine++)
            if (unit->works[edge->work].weight[engine] > 0) reweigh(&sweep, unit->works[edge->work].user, engine);
    }
    advance(&sweep, to);
    for (unsigned user = 0; user < unit->user_count; user++)
        for (int engine = 0; engine < ENGINES; engine++) settle(&sweep, &sweep.users[user], engine);
    return sweep;
}

void engines_busy(const Unit *unit, int64_t from, int64_t to, double busy[ENGINES])
{
    memset(busy, 0, ENGINES * sizeof *busy);
    for (int64_t step; from < to; from += step) { /* in steps, so that a long span needs no long list */
        step = to - from < SECOND ? to - from : SECOND;
        Sweep sweep = sweep_open(unit, from, from + step);
        for (int engine = 0; engine < ENGINES; engine++) busy[engine] += sweep.busy[engine];
        sweep_close(&sweep);
    }
}

/* --- whom a sample is credited to --- */

/* The process on the engine at the sample's end: the time slice's number decides among those that share it. */
static unsigned credit_end(const Sweep *sweep, int engine, uint64_t draw)
{
    if (!sweep->sharing[engine]) return NVML_NO_PID;
    unsigned rank = (unsigned)(draw % sweep->sharing[engine]);
    for (unsigned user = 0; user < sweep->unit->user_count; user++)
        if (sweep->users[user].weight[engine] > 0 && !rank--) return sweep->unit->pids[user];
    return NVML_NO_PID;
}

/* The process that was on the engine last, however long before the sample's end: the draw decides as above. */
static unsigned credit_last(const Sweep *sweep, int engine, uint64_t draw)
{
    int64_t last = 0;
    unsigned equals = 0;
    for (unsigned user = 0; user < sweep->unit->user_count; user++) {
        int64_t own = sweep->users[user].last[engine];
        if (sweep->users[user].used[engine] <= 0 || own < last) continue;
        equals = own > last ? 1 : equals + 1;
        last = own;
    }
    unsigned rank = equals ? (unsigned)(draw % equals) : 0;
    for (unsigned user = 0; user < sweep->unit->user_count; user++)
        if (sweep->users[user].used[engine] > 0 && sweep->users[user].last[engine] == last && !rank--)
            return sweep->unit->pids[user];
    return NVML_NO_PID;
}

/* The process that used the engine the longest; a draw decides between equals. */
static unsigned credit_longest(const Sweep *sweep, int engine, uint64_t draw)
{
    double longest = 0;
    unsigned pid = NVML_NO_PID, equals = 0;
    for (unsigned user = 0; user < sweep->unit->user_count; user++) {
        double used = sweep->users[user].used[engine];
        if (used <= 0 || used < longest - 1) continue;
        equals = used > longest + 1 ? 1 : equals + 1;
        if (used > longest) longest = used;
        if (equals == 1 || mix(draw + user) % equals == 0) pid = sweep->unit->pids[user];
    }
    return pid;
}

/* A process drawn with the chance of its part in the engine's use. */
static unsigned credit_random(const Sweep *sweep, int engine, uint64_t draw)
{
    double all = 0;
    for (unsigned user = 0; user < sweep->unit->user_count; user++) all += sweep->users[user].used[engine];
    double point = all * (double)(draw >> 11) / 9007199254740992.0; /* 2^53 */
    for (unsigned user = 0; user < sweep->unit->user_count; user++) {
        point -= sweep->users[user].used[engine];
        if (point < 0) return sweep->unit->pids[user];
    }
    return NVML_NO_PID;
}

static Sample sample_compute(const Gpu *gpu, const Unit *unit, int64_t number)
{
    static unsigned (*const rules[])(const Sweep *, int, uint64_t) = {credit_last, credit_end, credit_longest, credit_random};
    int64_t end = gpu->sample_offset + (number + 1) * gpu->sample_period;
    uint64_t draw = mix((uint64_t)(end / gpu->slice) ^ mix(gpu->minor + 1));
    Sweep sweep = sweep_open(unit, end - gpu->sample_period, end);
    Sample sample;
    for (int engine = 0; engine < ENGINES; engine++) {
        double share = 10000 * sweep.busy[engine] / (double)gpu->sample_period;
        sample.share[engine] = share > 10000 ? 10000 : (unsigned)(share + 0.5);
        sample.pid[engine] = rules[gpu->rule](&sweep, engine, draw);
    }
    sweep_close(&sweep);
    return sample;
}

/* --- the ring --- */

/* Rounded down, for a number of samples below zero too. */
static int64_t floor_divide(int64_t dividend, int64_t divisor)
{
    return dividend / divisor - (dividend % divisor < 0);
}

static void ring_fill(Unit *unit, const Gpu *gpu, int64_t last)
{
    if (!unit->ring) unit->ring = calloc(gpu->ring, sizeof(Sample));
    int64_t oldest = last - gpu->ring + 1;
    bool follows = unit->newest >= oldest && unit->newest <= last;
    for (int64_t number = follows ? unit->newest + 1 : oldest; number <= last; number++)
        unit->ring[(uint64_t)number % gpu->ring] = sample_compute(gpu, unit, number);
    unit->newest = last;
}

Ring ring_open(Call *call, unsigned long long last_seen_us)
{
    const Gpu *gpu = call->gpu;
    Ring ring = {.unit = call->unit, .gpu = gpu};
    ring.last = floor_divide(call->now - gpu->sample_offset, gpu->sample_period) - 1;
    ring.first = ring.last - gpu->ring + 1;
    pthread_mutex_lock(&ring.unit->lock);
    ring_fill(ring.unit, gpu, ring.last);
    while (ring.first <= ring.last && sample_timestamp_us(gpu, ring.first) <= last_seen_us) ring.first++;
    return ring;
}

void ring_close(Ring *ring)
{
    pthread_mutex_unlock(&ring->unit->lock);
}

const Sample *ring_sample(const Ring *ring, int64_t number)
{
    const Sample *sample = &ring->unit->ring[(uint64_t)number % ring->gpu->ring];
    if (!ring->gpu->sleeps) return sample;
    for (int engine = 0; engine < ENGINES; engine++)
        if (sample->share[engine]) return sample;
    return NULL;
}

unsigned long long sample_timestamp_us(const Gpu *gpu, int64_t number)
{
    return (unsigned long long)((gpu->sample_offset + (number + 1) * gpu->sample_period) / 1000);
}

Sample last_sample(Call *call)
{
    Ring ring = ring_open(call, 0);
    Sample sample = ring.unit->ring[(uint64_t)ring.last % ring.gpu->ring];
    ring_close(&ring);
    return sample;
}

/* --- the integral since the driver was loaded --- */

static double unit_busy_until(Unit *unit, int64_t loaded, int64_t until)
{
    pthread_mutex_lock(&unit->lock);
    if (!unit->integrated_until || unit->integrated_until > until) { /* nothing can be before the first work */
        int64_t first = until;
        for (unsigned i = 0; i < unit->work_count; i++)
            if (unit->works[i].start < first) first = unit->works[i].start;
        unit->integrated_until = first > loaded ? first : loaded;
        unit->integrated = 0;
    }
    double busy[ENGINES];
    engines_busy(unit, unit->integrated_until, until, busy);
    unit->integrated += busy[CORE];
    if (until > unit->integrated_until) unit->integrated_until = until;
    double integrated = unit->integrated;
    pthread_mutex_unlock(&unit->lock);
    return integrated;
}

double board_busy_until(Call *call, int64_t until)
{
    int64_t loaded = call->scenario->loaded;
    if (!call->gpu->mig) return unit_busy_until(&call->gpu->units[0], loaded, until);
    double busy = 0;
    for (int i = 0; i < MAX_INSTANCES; i++)
        if (call->gpu->instances[i].present)
            busy += unit_busy_until(&call->gpu->units[1 + i], loaded, until) * call->gpu->instances[i].slices / call->gpu->slices;
    return busy;
}

unsigned power_of_share(const Gpu *gpu, double share)
{
    return gpu->idle_mw + (unsigned)((gpu->power_mw - gpu->idle_mw) * share + 0.5);
}
