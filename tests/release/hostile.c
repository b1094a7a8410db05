/* A card's program that attacks the session it runs in. The first argument says how. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int count;
static int status;

static void mark(int n)
{
    count = n;
}

static void eat_memory(void)
{
    for (;;)
        memset(malloc(1 << 20), 1, 1 << 20);
}

static void fork_without_end(void)
{
    for (;;)
        fork();
}

static void ignore_signals(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    for (int number = 1; number < 65; number++)
        signal(number, SIG_IGN);
}

/* In a process that has lost its parent, its terminal, its environment and its descriptors. */
static void leave(const char *how)
{
    if (fork() != 0) {
        wait(NULL);
        return;
    }
    setsid();
    if (fork() != 0)
        _exit(0);
    for (int descriptor = 0; descriptor < 1024; descriptor++)
        close(descriptor);
    execle("/proc/self/exe", "hostile", how, NULL, (char *[]){NULL});
}

static void use_processor(void)
{
    for (volatile unsigned long n = 0;; n++) {
    }
}

static void misbehave(const char *how)
{
    if (strcmp(how, "eat") == 0)
        eat_memory();
    if (strcmp(how, "fork") == 0)
        fork_without_end();
    if (strcmp(how, "deaf-fork") == 0) {
        ignore_signals();
        fork_without_end();
    }
    if (strcmp(how, "burn") == 0)
        use_processor();
    if (strcmp(how, "deaf-burn") == 0) {
        ignore_signals();
        use_processor();
    }
    if (strcmp(how, "sleep") == 0)
        for (;;)
            pause();
    if (strcmp(how, "kill-all") == 0)
        kill(-1, SIGKILL);
    if (strcmp(how, "stop-all") == 0)
        kill(-1, SIGSTOP);
}

/* hostile HOW: misbehave before the second mark. hostile HOW later: after it. hostile HOW leave: in another process.
   hostile run COMMAND: run a shell command before the second mark. */
int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "", *when = argc > 2 ? argv[2] : "";
    int local = 0;
    mark(1);
    if (strcmp(how, "run") == 0)
        status = system(when);
    else if (strcmp(when, "leave") == 0)
        leave(how);
    else if (strcmp(when, "later") != 0)
        misbehave(how);
    mark(2);
    misbehave(how);
    return local + status;
}
