/* What programs keep in arenas: strings, linked structs, arrays that grow. */
#include "arena.h"
#include "demo.h"

#include <stdio.h>
#include <string.h>

static void strings(void)
{
    Arena a = {0};
    must(arena_init(&a, 64, 64));

    char *noun = arena_strdup(&a, "arena", "noun");
    char *verb = arena_strdup(&a, "bump", "verb");
    char *empty = arena_strdup(&a, "", "empty");
    must(noun && verb && empty);

    printf("data: \"%s\" \"%s\" \"%s\" in %zu bytes\n", noun, verb, empty, a.used);
    arena_destroy(&a);
}

typedef struct Node {
    int value;
    struct Node *next;
} Node;

static Node *prepend(Arena *a, Node *head, int value)
{
    Node *node = arena_new(a, Node, "node");
    must(node != NULL);
    node->value = value;
    node->next = head;
    return node;
}

static void list(void)
{
    Arena a = {0};
    must(arena_init(&a, 64, 64));

    Node *head = NULL;
    head = prepend(&a, head, 10);
    head = prepend(&a, head, 20);
    head = prepend(&a, head, 30);

    int sum = 0;
    for (Node *node = head; node != NULL; node = node->next) {
        sum += node->value;
    }
    /* No walk frees the nodes: they go with the arena. */
    printf("data: the list sums up to %d\n", sum);
    arena_destroy(&a);
}

typedef struct {
    int *items;
    size_t count;
    size_t capacity;
} IntList;

static void push(Arena *a, IntList *ints, int value)
{
    if (ints->count == ints->capacity) {
        size_t capacity = ints->capacity == 0 ? 4 : 2 * ints->capacity;
        if (!arena_extend(a, ints->items, capacity * sizeof(int))) {
            /* Something lies behind the items (or there are none yet): move. */
            int *moved = arena_array(a, int, capacity, "ints");
            must(moved != NULL);
            if (ints->count > 0) {
                memcpy(moved, ints->items, ints->count * sizeof(int));
            }
            ints->items = moved;
        }
        ints->capacity = capacity;
    }
    ints->items[ints->count] = value;
    ints->count++;
}

static void growing_array(void)
{
    Arena a = {0};
    must(arena_init(&a, 128, 128));

    IntList ints = {0};
    for (int i = 1; i <= 5; i++) {
        push(&a, &ints, 10 * i);
    }
    int *early = ints.items;
    char *wall = arena_strdup(&a, "wall", "wall");
    must(wall != NULL);
    for (int i = 6; i <= 9; i++) {
        push(&a, &ints, 10 * i);
    }
    printf("data: %zu ints, moved %s, last %d\n", ints.count,
           ints.items == early ? "never" : "once", ints.items[ints.count - 1]);
    arena_destroy(&a);
}

void demo_data(void)
{
    strings();
    list();
    growing_array();
}
