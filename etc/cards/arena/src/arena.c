#include "arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static bool is_power_of_two(size_t n)
{
    /* n - 1 flips the lowest set bit of n and all bits below it, so the two
     * share a bit exactly when n has a second one set. */
    return n != 0 && (n & (n - 1)) == 0;
}

/* The first multiple of `align`, a power of two, that is not below `n`. */
static size_t round_up(size_t n, size_t align)
{
    size_t mask = align - 1; /* the low bits a multiple of align has clear */

    return (n + mask) & ~mask;
}

bool arena_init(Arena *a, size_t size, size_t reserve)
{
    *a = (Arena){0};
    /* No object is larger than PTRDIFF_MAX. Held to here, it keeps every sum
     * of an offset and a mask below from wrapping around. */
    if (size == 0 || size > reserve || reserve > PTRDIFF_MAX - ARENA_BASE_ALIGN) {
        return false;
    }
    /* C11 wants the size of an aligned_alloc to be a multiple of the alignment. */
    a->base = aligned_alloc(ARENA_BASE_ALIGN, round_up(reserve, ARENA_BASE_ALIGN));
    if (a->base == NULL) {
        return false;
    }
    a->size = size;
    a->reserve = reserve;
    return true;
}

void arena_destroy(Arena *a)
{
    free(a->base);
    *a = (Arena){0};
}

/* Sees to it that [start, start + size) lies inside the arena, by growing if
 * need be. The region was reserved as a whole, so growth only moves the limit:
 * the base stays, and with it every pointer handed out so far. */
static bool make_room(Arena *a, size_t start, size_t size)
{
    /* Subtract instead of adding: start + size may wrap around to a small
     * number and pass, reserve - start cannot. */
    if (start > a->reserve || size > a->reserve - start) {
        return false;
    }
    size_t end = start + size;
    size_t limit = a->size;
    /* Doubling keeps the number of growths logarithmic in the final size. */
    while (limit < end) {
        limit *= 2;
    }
    a->size = limit < a->reserve ? limit : a->reserve;
    return true;
}

static void set_used(Arena *a, size_t used)
{
    a->used = used;
    if (used > a->high_water) {
        a->high_water = used;
    }
}

void *arena_alloc(Arena *a, size_t size, size_t align, const char *label)
{
    if (!is_power_of_two(align) || align > ARENA_BASE_ALIGN) {
        return NULL;
    }
    if (a->base == NULL || a->count == ARENA_MAX_BLOCKS) {
        return NULL;
    }
    size_t start = round_up(a->used, align);
    if (!make_room(a, start, size)) {
        return NULL;
    }
    /* Reused bytes still hold what their last owner left there. */
    void *block = memset(a->base + start, 0, size);
    a->log[a->count] = (ArenaBlock){start, size, label};
    a->count++;
    set_used(a, start + size);
    return block;
}

void *arena_alloc_array(Arena *a, size_t count, size_t size, size_t align, const char *label)
{
    /* count * size would wrap around, and a tiny block would pass for a huge one. */
    if (size != 0 && count > SIZE_MAX / size) {
        return NULL;
    }
    return arena_alloc(a, count * size, align, label);
}

char *arena_strdup(Arena *a, const char *text, const char *label)
{
    size_t size = strlen(text) + 1; /* the terminating NUL needs room too */
    char *copy = arena_alloc(a, size, alignof(char), label);

    if (copy != NULL) {
        memcpy(copy, text, size);
    }
    return copy;
}

bool arena_extend(Arena *a, void *block, size_t size)
{
    if (a->count == 0) {
        return false;
    }
    /* Only the newest block has nothing but free bytes behind it. */
    ArenaBlock *newest = &a->log[a->count - 1];
    if (block != a->base + newest->offset || size < newest->size) {
        return false;
    }
    if (!make_room(a, newest->offset, size)) {
        return false;
    }
    memset(a->base + newest->offset + newest->size, 0, size - newest->size);
    newest->size = size;
    set_used(a, newest->offset + size);
    return true;
}

ArenaMark arena_mark(const Arena *a)
{
    return (ArenaMark){a->used, a->count};
}

bool arena_restore(Arena *a, ArenaMark mark)
{
    /* Going forward would bring back blocks that were released. */
    if (mark.used > a->used || mark.count > a->count) {
        return false;
    }
    if (a->poison) {
        memset(a->base + mark.used, ARENA_POISON, a->used - mark.used);
    }
    a->used = mark.used;
    a->count = mark.count;
    return true;
}

void arena_reset(Arena *a)
{
    arena_restore(a, (ArenaMark){0, 0});
}
