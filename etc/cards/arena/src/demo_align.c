/* Alignment: what it costs, how it is computed, and how to pay less. */
#include "arena.h"
#include "demo.h"

#include <stdio.h>

/* Each type wants an offset that is a multiple of its own alignment. */
static void padding(void)
{
    Arena a = {0};
    must(arena_init(&a, 256, 256));

    char *tag = arena_new(&a, char, "tag");
    int *count = arena_new(&a, int, "count");
    char *flag = arena_new(&a, char, "flag");
    double *ratio = arena_new(&a, double, "ratio");
    max_align_t *any = arena_new(&a, max_align_t, "any");
    char *last = arena_new(&a, char, "last");
    /* One object per cache line keeps two threads from fighting over a line. */
    char *line = arena_alloc(&a, 10, ARENA_BASE_ALIGN, "line");
    must(tag && count && flag && ratio && any && last && line);

    /* Neither of the next two is an alignment this arena can give. */
    void *twelve = arena_alloc(&a, 8, 12, "twelve");
    void *page = arena_alloc(&a, 8, 4096, "page");
    printf("align: 12 %s, 4096 %s\n", twelve ? "given" : "refused", page ? "given" : "refused");
    arena_destroy(&a);
}

/* The same four objects in two orders. */
static size_t as_they_come(void)
{
    Arena a = {0};
    must(arena_init(&a, 64, 64));

    char *tag = arena_new(&a, char, "tag");
    double *ratio = arena_new(&a, double, "ratio");
    char *flag = arena_new(&a, char, "flag");
    int *count = arena_new(&a, int, "count");
    must(tag && ratio && flag && count);

    size_t used = a.used;
    arena_destroy(&a);
    return used;
}

static size_t strictest_first(void)
{
    Arena a = {0};
    must(arena_init(&a, 64, 64));

    double *ratio = arena_new(&a, double, "ratio");
    int *count = arena_new(&a, int, "count");
    char *tag = arena_new(&a, char, "tag");
    char *flag = arena_new(&a, char, "flag");
    must(tag && ratio && flag && count);

    size_t used = a.used;
    arena_destroy(&a);
    return used;
}

void demo_align(void)
{
    padding();

    size_t loose = as_they_come();
    size_t tight = strictest_first();
    printf("align: %zu bytes as they come, %zu strictest first\n", loose, tight);
}
