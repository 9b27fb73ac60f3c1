/* Sleeping processes in cgroups. Standard input: "COUNT FILE" puts so many into the cgroup whose cgroup.procs FILE is; an empty line
 * is answered "ready" once all lines before it are done; at its end, or when this process ends, all are killed. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t *leaders;
static size_t leader_count;

static void die_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
}

static _Noreturn void sleep_on(void)
{
    close(0);
    close(1);
    for (;;) pause();
}

/* The first process of a cgroup moves there; its children are born there, which is much cheaper than to move each. */
static _Noreturn void lead(int count, const char *path, int done)
{
    FILE *procs = fopen(path, "w");
    if (!procs || fprintf(procs, "%d", getpid()) < 0 || fclose(procs)) {
        perror(path);
        _exit(1);
    }
    pid_t self = getpid();
    while (--count > 0) {
        pid_t child = fork();
        if (child < 0) {
            perror("fork");
            _exit(1);
        }
        if (child) continue;
        die_with(self);
        close(done);
        sleep_on();
    }
    if (write(done, "", 1) != 1) _exit(1);
    close(done);
    sleep_on();
}

static void add(int count, const char *path)
{
    int done[2];
    char byte;
    if (pipe(done)) exit(1);
    pid_t self = getpid(), leader = fork();
    if (leader == 0) {
        die_with(self);
        close(done[0]);
        lead(count, path, done[1]);
    }
    close(done[1]);
    leaders = realloc(leaders, (leader_count + 1) * sizeof *leaders);
    leaders[leader_count++] = leader;
    if (leader < 0 || read(done[0], &byte, 1) != 1) exit(1);
    close(done[0]);
}

int main(void)
{
    char line[8192];
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* so that the last of them is waited for */
    while (fgets(line, sizeof line, stdin)) {
        char *end, *path = line;
        line[strcspn(line, "\n")] = 0;
        if (!*line) {
            puts("ready");
            fflush(stdout);
            continue;
        }
        long count = strtol(line, &end, 10);
        path = end + 1;
        add((int)count, path);
    }
    for (size_t i = 0; i < leader_count; i++) kill(leaders[i], SIGKILL);
    while (wait(NULL) > 0) continue;
    return 0;
}
