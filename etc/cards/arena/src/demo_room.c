/* Room: how an arena grows, where growth ends, and what a refusal leaves behind. */
#include "arena.h"
#include "demo.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void grow(void)
{
    Arena a = {0};
    must(arena_init(&a, 32, 320));
    unsigned char *base_before = a.base;

    char *title = arena_alloc(&a, 20, 1, "title");
    must(title != NULL);
    strcpy(title, "written before");

    long *totals = arena_array(&a, long, 4, "totals");
    must(totals != NULL);

    char *buffer = arena_alloc(&a, 100, 1, "buffer");
    must(buffer != NULL);

    char *rest = arena_alloc(&a, 150, 1, "rest");
    must(rest != NULL);

    printf("room: %zu bytes, base %s, title \"%s\"\n", a.size,
           a.base == base_before ? "unmoved" : "moved", title);
    arena_destroy(&a);
}

static void run_out(void)
{
    Arena a = {0};
    must(arena_init(&a, 64, 128));

    char *block = arena_alloc(&a, 100, 1, "block");
    must(block != NULL);

    char *too_big = arena_alloc(&a, 29, 1, "too big");
    char *exact = arena_alloc(&a, 28, 1, "exact");
    char *one_more = arena_alloc(&a, 1, 1, "one more");
    char *nothing = arena_alloc(&a, 0, 1, "nothing");
    printf("room: 29 %s, 28 %s, then 1 %s, 0 %s\n", too_big ? "given" : "refused",
           exact ? "given" : "refused", one_more ? "given" : "refused",
           nothing ? "given" : "refused");
    arena_destroy(&a);
}

/* Sizes that only look small after the arithmetic has wrapped around. */
static void wrap_around(void)
{
    Arena a = {0};
    must(arena_init(&a, 64, 128));

    char *block = arena_alloc(&a, 16, 1, "block");
    must(block != NULL);

    char *huge = arena_alloc(&a, SIZE_MAX - 7, 1, "huge");
    long *many = arena_array(&a, long, SIZE_MAX / 8 + 2, "many");
    printf("room: huge %s, many %s\n", huge ? "given" : "refused", many ? "given" : "refused");
    arena_destroy(&a);
}

void demo_room(void)
{
    grow();
    run_out();
    wrap_around();
}
