/* A server that answers requests out of one arena, in three versions. Its
 * log-in decides who may open the administration page. */
#include "arena.h"
#include "demo.h"

#include <stdio.h>
#include <string.h>

/* The name lies inside the struct: a session is one block. */
typedef struct {
    int id;
    char user[12];
} Session;

static Session *log_in(Arena *a, int id, const char *user)
{
    Session *session = arena_new(a, Session, user);
    must(session != NULL);
    session->id = id;
    snprintf(session->user, sizeof session->user, "%s", user);
    return session;
}

static bool same_user(const Session *one, const Session *other)
{
    return one->id == other->id && strcmp(one->user, other->user) == 0;
}

static void report(const char *version, const Session *visitor, bool granted)
{
    printf("%s: %s opens /admin: %s\n", version, visitor->user, granted ? "granted" : "denied");
}

static void server_v1(bool poison)
{
    Arena a = {0};
    must(arena_init(&a, 64, 64));
    a.poison = poison;

    /* Request 1: alice, the administrator, logs in. */
    Session *admin = log_in(&a, 1, "alice");
    char *page = arena_strdup(&a, "welcome", "page");
    must(page != NULL);
    printf("v1: %s, %s\n", page, admin->user);

    /* Request 2: a visitor logs in and asks for the administration page. */
    arena_reset(&a);
    printf("v1: the administrator has id %d\n", admin->id);
    Session *visitor = log_in(&a, 2, "mallory");
    bool granted = same_user(admin, visitor);
    report("v1", visitor, granted);
    arena_destroy(&a);
}

/* What outlives a request lies below a mark, and requests end at the mark. */
static void server_v2(void)
{
    Arena a = {0};
    must(arena_init(&a, 64, 64));

    Session *admin = log_in(&a, 1, "alice");
    ArenaMark request = arena_mark(&a);
    char *page = arena_strdup(&a, "welcome", "page");
    must(page != NULL);

    must(arena_restore(&a, request));
    Session *visitor = log_in(&a, 2, "mallory");
    bool granted = same_user(admin, visitor);
    report("v2", visitor, granted);
    arena_destroy(&a);
}

/* One arena for each lifetime: sessions last, requests do not. */
static void server_v3(void)
{
    Arena sessions = {0};
    Arena a = {0}; /* the current request */
    must(arena_init(&sessions, 64, 64));
    must(arena_init(&a, 64, 64));

    Session *admin = log_in(&sessions, 1, "alice");
    char *page = arena_strdup(&a, "welcome", "page");
    must(page != NULL);

    arena_reset(&a);
    Session *visitor = log_in(&sessions, 2, "mallory");
    bool granted = same_user(admin, visitor);
    report("v3", visitor, granted);
    arena_destroy(&a);
    arena_destroy(&sessions);
}

void demo_server(void)
{
    server_v1(false);
    server_v2();
    server_v3();
    /* Version 1 once more, with released bytes made recognisable. */
    server_v1(true);
}
