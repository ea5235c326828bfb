/* A module that owns the name CL.THROTTLE, as redis-cell does. It asks the server for the few
 * functions it needs, so that no header is needed. */
#include <stddef.h>

typedef struct Ctx Ctx;
typedef struct Str Str;
typedef int (*Command)(Ctx *, Str **, int);

static int (*reply)(Ctx *, const char *);

static int answer(Ctx *ctx, Str **argv, int argc) {
    (void)argv, (void)argc;
    return reply(ctx, "the other one");
}

int RedisModule_OnLoad(Ctx *ctx, Str **argv, int argc) {
    (void)argv, (void)argc;
    /* As the server promises: a context starts with the function that finds all others. */
    int (*get)(const char *, void *) = *(int (**)(const char *, void *))ctx;
    void (*name)(Ctx *, const char *, int, int);
    int (*create)(Ctx *, const char *, Command, const char *, int, int, int);
    get("RedisModule_SetModuleAttribs", &name);
    get("RedisModule_CreateCommand", &create);
    get("RedisModule_ReplyWithSimpleString", &reply);
    name(ctx, "owner", 1, 1);
    return create(ctx, "cl.throttle", answer, "write", 1, 1, 1);
}
