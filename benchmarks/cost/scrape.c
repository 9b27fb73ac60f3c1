/* Scrapes a page of 127.0.0.1 over and over and says how long each scrape took.
 * scrape PORT PATH ENCODING SCRAPERS REQUESTS SECONDS
 * Each of SCRAPERS threads makes one request after the other, each on a connection of its own, until it made REQUESTS or SECONDS are over.
 * Prints "bytes N" (of the last answer, head included), "failed N", then the nanoseconds of each good scrape, one a line. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_S = 10 };

static struct sockaddr_in address;
static char request[1024];
static long most_requests;
static int64_t end;

typedef struct {
    pthread_t thread;
    long good, failed, bytes;
    int64_t *took;
} Scraper;

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* The bytes of the answer; 0: it was none, or not a good one. */
static long scrape(char *buffer, size_t size)
{
    struct timeval patience = {PATIENCE_S, 0};
    long bytes = 0, got = -1;
    char head[16] = "";
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (!connect(s, (struct sockaddr *)&address, sizeof address) &&
        send(s, request, strlen(request), MSG_NOSIGNAL) == (long)strlen(request)) {
        while ((got = recv(s, buffer, size, 0)) > 0) {
            if (!bytes) memcpy(head, buffer, got < 15 ? (size_t)got : 15);
            bytes += got;
        }
    }
    close(s);
    return got == 0 && !strncmp(head + 8, " 200", 4) ? bytes : 0;
}

static void *run(void *argument)
{
    Scraper *self = argument;
    size_t size = 1 << 20;
    char *buffer = malloc(size);
    while (self->good + self->failed < most_requests && now() < end) {
        int64_t begun = now();
        long bytes = scrape(buffer, size);
        if (bytes) {
            self->took[self->good++] = now() - begun;
            self->bytes = bytes;
        } else {
            self->failed++;
        }
    }
    free(buffer);
    return NULL;
}

int main(int count, char **values)
{
    if (count != 7) return 2;
    int scrapers = atoi(values[4]);
    Scraper *all = calloc((size_t)scrapers, sizeof *all);
    address = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(values[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    snprintf(request, sizeof request,
             "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: %s\r\nConnection: close\r\n\r\n", values[2], values[3]);
    most_requests = atol(values[5]);
    end = now() + (int64_t)(atof(values[6]) * 1e9);
    for (int i = 0; i < scrapers; i++) {
        all[i].took = calloc((size_t)most_requests, sizeof *all[i].took);
        pthread_create(&all[i].thread, NULL, run, &all[i]);
    }
    long failed = 0;
    for (int i = 0; i < scrapers; i++) {
        pthread_join(all[i].thread, NULL);
        failed += all[i].failed;
    }
    printf("bytes %ld\nfailed %ld\n", all[0].bytes, failed);
    for (int i = 0; i < scrapers; i++)
        for (long n = 0; n < all[i].good; n++) printf("%lld\n", (long long)all[i].took[n]);
    return 0;
}
