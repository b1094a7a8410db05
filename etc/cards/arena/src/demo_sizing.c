/* Sizing: rehearse with room to spare, read the high-water mark, then cut. */
#include "arena.h"
#include "demo.h"

#include <stdio.h>

typedef struct {
    double x;
    double y;
    int picture;
} Sprite;

/* Everything a frame needs lives in the arena and goes when it is drawn. */
static bool draw_frame(Arena *a, const char *text, size_t count)
{
    char *caption = arena_strdup(a, text, "caption");
    Sprite *sprites = arena_array(a, Sprite, count, "sprites");
    bool drawn = caption != NULL && sprites != NULL;

    arena_reset(a);
    return drawn;
}

static int play(Arena *a)
{
    int frames = 0;

    frames += draw_frame(a, "intro", 3);
    frames += draw_frame(a, "battle", 9);
    frames += draw_frame(a, "credits", 5);
    return frames;
}

static size_t rehearse(void)
{
    Arena a = {0};
    must(arena_init(&a, 64, 1024));
    must(play(&a) == 3);

    size_t needed = a.high_water;
    printf("sizing: %zu bytes are needed\n", needed);
    arena_destroy(&a);
    return needed;
}

static void perform(size_t size)
{
    Arena a = {0};
    must(arena_init(&a, size, size));

    int frames = play(&a);
    printf("sizing: %d of 3 frames with %zu bytes\n", frames, size);
    arena_destroy(&a);
}

void demo_sizing(void)
{
    size_t needed = rehearse();
    perform(needed);
    perform(needed - 1);
}
