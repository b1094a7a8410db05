/*
 * An arena (bump) allocator.
 *
 * An arena owns one contiguous region and hands it out from the front. A
 * request moves one number, `used`, forward; nothing is ever given back alone.
 * Memory returns in bulk: to a mark, or all of it by a reset.
 *
 *     base                 used            size                 reserve
 *      |  blocks, padding   |  free now     |  ours after growth  |
 *      +--------------------+---------------+---------------------+
 *
 * Always true: used <= size <= reserve, and used <= high_water <= size.
 */
#ifndef ARENA_H
#define ARENA_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    /* The base lies on a multiple of this, so an aligned offset is an aligned
     * address for every alignment up to it. 64 is a usual cache line, and more
     * than alignof(max_align_t), which is what malloc would promise. */
    ARENA_BASE_ALIGN = 64,

    /* Blocks the log can describe. A request past it is refused: a log that
     * told only half of the truth would be worse than none. */
    ARENA_MAX_BLOCKS = 32,

    /* Written over released bytes when `poison` is on. As an int it is absurd,
     * as a pointer it is no valid address, as text it is not printable. */
    ARENA_POISON = 0xDD
};

/* One block that was handed out. Padding belongs to no block: it is the gap
 * between the end of one and the offset of the next. */
typedef struct {
    size_t offset;     /* of the first byte, counted from base */
    size_t size;       /* in bytes, as requested */
    const char *label; /* what it is for; borrowed, so use string literals */
} ArenaBlock;

typedef struct {
    unsigned char *base; /* first byte of the region; never moves */
    size_t size;         /* bytes that may be handed out now */
    size_t reserve;      /* bytes that size may grow to */
    size_t used;         /* bytes taken, padding included: the bump pointer */
    size_t high_water;   /* the greatest value that used ever had */
    size_t count;        /* live blocks in the log */
    bool poison;         /* overwrite released bytes, to expose stale pointers */
    ArenaBlock log[ARENA_MAX_BLOCKS];
} Arena;

/* A place to come back to. */
typedef struct {
    size_t used;
    size_t count;
} ArenaMark;

/* Reserves `reserve` bytes, of which `size` may be used at once.
 * False, and an arena that refuses every request, if 0 < size <= reserve does
 * not hold or the system has no memory. */
bool arena_init(Arena *a, size_t size, size_t reserve);

/* Gives the region back. Every pointer into it is dead. */
void arena_destroy(Arena *a);

/* `size` zeroed bytes at an offset that is a multiple of `align`.
 * NULL, with nothing changed, if there is no room left or `align` is not a
 * power of two from 1 to ARENA_BASE_ALIGN. */
void *arena_alloc(Arena *a, size_t size, size_t align, const char *label);

/* `count` elements of `size` bytes; NULL as well if their product overflows. */
void *arena_alloc_array(Arena *a, size_t count, size_t size, size_t align, const char *label);

/* The type gives size and alignment, so the two cannot disagree. */
#define arena_new(a, type, label) \
    ((type *)arena_alloc((a), sizeof(type), alignof(type), (label)))
#define arena_array(a, type, count, label) \
    ((type *)arena_alloc_array((a), (count), sizeof(type), alignof(type), (label)))

/* A copy of `text` with its terminating NUL; NULL if there is no room. */
char *arena_strdup(Arena *a, const char *text, const char *label);

/* Makes the newest block `size` bytes long without moving it; new bytes are
 * zero. False, with nothing changed, if `block` is not the newest block, would
 * shrink, or has no room. */
bool arena_extend(Arena *a, void *block, size_t size);

/* Remembers the present fill level. */
ArenaMark arena_mark(const Arena *a);

/* Releases everything that was allocated since `mark`. False, with nothing
 * changed, if the arena has already been released to a point before it. */
bool arena_restore(Arena *a, ArenaMark mark);

/* Releases everything. Size and high_water stay as they are. */
void arena_reset(Arena *a);

#endif
