/* Giving memory back: all at once, to a mark, and level by level. */
#include "arena.h"
#include "demo.h"

#include <stdio.h>

static void reset(void)
{
    Arena a = {0};
    must(arena_init(&a, 128, 128));

    char *name = arena_strdup(&a, "hopper", "name");
    double *samples = arena_array(&a, double, 6, "samples");
    must(name && samples);

    arena_reset(&a);
    char *fresh = arena_alloc(&a, 4, 1, "fresh");
    must(fresh != NULL);
    printf("marks: %zu used after the reset, %zu at most\n", a.used, a.high_water);
    arena_destroy(&a);
}

static void nested(void)
{
    Arena a = {0};
    must(arena_init(&a, 128, 128));

    char *config = arena_strdup(&a, "verbose=1", "config");
    ArenaMark outer = arena_mark(&a);
    char *draft = arena_alloc(&a, 30, 1, "draft");
    ArenaMark inner = arena_mark(&a);
    char *scratch = arena_alloc(&a, 50, 1, "scratch");
    must(config && draft && scratch);

    bool inner_restored = arena_restore(&a, inner);
    bool outer_restored = arena_restore(&a, outer);
    bool inner_again = arena_restore(&a, inner);
    printf("marks: inner %d, outer %d, inner again %d, config \"%s\"\n", inner_restored,
           outer_restored, inner_again, config);
    arena_destroy(&a);
}

/* Each level takes scratch memory and leaves the arena as it found it.
 * Answers the fill level at the deepest point. */
static size_t descend(Arena *a, int depth)
{
    ArenaMark mark = arena_mark(a);
    int *scratch = arena_array(a, int, 4, "level");
    must(scratch != NULL);
    scratch[0] = depth;

    size_t deepest = a->used;
    if (depth > 1) {
        deepest = descend(a, depth - 1);
    }
    must(arena_restore(a, mark));
    return deepest;
}

void demo_marks(void)
{
    reset();
    nested();

    Arena a = {0};
    must(arena_init(&a, 64, 64));
    size_t deepest = descend(&a, 4);
    printf("marks: %zu used at the deepest point, %zu after it\n", deepest, a.used);
    arena_destroy(&a);
}
