#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct block {
    int offset;
    int size;
    const char *label;
};

struct arena {
    unsigned char *base;
    size_t size;
    size_t used;
    int count;
    struct block blocks[4];
};

enum colour { RED, GREEN };

static struct arena arena;
static volatile int count;
static volatile int zero;
static const char *word = "word";
static const char *nothing;
static char letters[8] = "abc";
static enum colour colour = GREEN;

static int twice(int n)
{
    return 2 * n;
}

static void mark(int n)
{
    count = n; /* marked */
}

static void allocate(struct arena *a, int size, const char *label)
{
    a->blocks[a->count].offset = (int)a->used;
    a->blocks[a->count].size = size;
    a->blocks[a->count].label = label;
    a->count++;
    a->used += size;
}

static void crash(void)
{
    *(volatile int *)(size_t)zero = 1; /* the crash */
}

static int await_line(void)
{
    char line[64];
    return fgets(line, sizeof line, stdin) != NULL ? (int)strlen(line) : -1;
}

static void *sleep_on(void *nothing_else)
{
    for (;;)
        pause();
    return nothing_else;
}

static void misbehave(const char *how)
{
    if (strcmp(how, "crash") == 0)
        crash();
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "kill") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(how, "signal") == 0) {
        signal(SIGUSR1, SIG_IGN);
        raise(SIGUSR1);
    }
    if (strcmp(how, "loop") == 0)
        for (;;)
            zero = 0; /* the loop */
    if (strcmp(how, "deaf") == 0) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, NULL);
        for (;;)
            zero = 0;
    }
    if (strcmp(how, "flood") == 0)
        for (;;)
            puts("all work and no play makes a dull program, over and over again");
    if (strcmp(how, "stdin") == 0)
        mark(await_line());
    if (strcmp(how, "daemon") == 0 && fork() == 0) {
        setsid();
        for (;;)
            pause();
    }
    if (strcmp(how, "file") == 0)
        fopen("/proc/self/stat", "r");
    if (strcmp(how, "pipe") == 0)
        popen("cat", "w");
    if (strcmp(how, "shared") == 0)
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (strcmp(how, "thread") == 0) {
        pthread_t sleeper;
        pthread_create(&sleeper, NULL, sleep_on, NULL);
    }
    if (strcmp(how, "timer") == 0) {
        struct sigevent silent = {.sigev_notify = SIGEV_NONE};
        timer_t timer;
        timer_create(CLOCK_MONOTONIC, &silent, &timer);
    }
    if (strcmp(how, "alarm") == 0) {
        signal(SIGALRM, mark);
        alarm(1000);
    }
    if (strcmp(how, "handler") == 0)
        signal(SIGABRT, mark);
    if (strcmp(how, "exit") == 0)
        exit(7);
}

int main(int argc, char **argv)
{
    arena.base = (unsigned char *)letters;
    arena.size = sizeof letters;
    allocate(&arena, 2, "first");
    allocate(&arena, 3, NULL);
    mark(1); /* before */
    misbehave(argc > 1 ? argv[1] : "");
    for (int i = 0; i < 5; i++)
        mark(10 + i); /* in the loop */
    count = twice(count) + (word != NULL) + (nothing != NULL) + (int)colour; /* after */
    printf("%d\n", count);
    return 0;
}
