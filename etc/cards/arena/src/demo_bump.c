/* Bump allocation: three requests, three neighbours. */
#include "arena.h"
#include "demo.h"

#include <stdio.h>
#include <string.h>

void demo_bump(void)
{
    Arena a = {0};
    must(arena_init(&a, 64, 64));

    /* Alignment 1 accepts any offset, so nothing but `used` decides. */
    char *first = arena_alloc(&a, 8, 1, "first");
    char *second = arena_alloc(&a, 5, 1, "second");
    char *third = arena_alloc(&a, 16, 1, "third");
    must(first && second && third);

    strcpy(second, "five");
    strcpy(third, "sixteen bytes");
    printf("bump: %zu of %zu bytes used by %zu blocks\n", a.used, a.size, a.count);
    arena_destroy(&a);
}
