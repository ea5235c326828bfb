/* Rate limiting with hiredis (0.14 and newer). One limiter for each thread.
 * hiredis writes to sockets that may be closed: ignore SIGPIPE in your program. */
#ifndef RL_LIMITER_H
#define RL_LIMITER_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

struct rl_verdict {
    bool allowed;
    long long limit;
    long long remaining;
    long long retry_after_ms; /* -1: this call will never succeed */
    long long reset_after_ms;
};

enum rl_outcome {
    RL_VERDICT,
    RL_NO_VERDICT, /* the server could not be reached, or could not decide */
    RL_BUG,        /* ERR, WRONGTYPE, NOPERM, ...: see error; neither open nor closed would show it */
};

/* Without a verdict: let the request through, or refuse it. */
enum rl_when_down { RL_OPEN, RL_CLOSED };

struct rl_limiter {
    const char *host;
    int port;
    int timeout_ms;
    redisContext *context; /* NULL: not connected; the next call connects */
    int pending;
    char error[128];
};

struct rl_answer {
    int status; /* 200: go on and send the headers along */
    char headers[256];
    char sentence[128];
};

/* { .host = "127.0.0.1", .port = 6379, .timeout_ms = 100 } is all that a limiter needs. */
void rl_close(struct rl_limiter *limiter);

/* rl_check(&limiter, &verdict, "RL.BUCKET %s 50 200", "user:42"). A %s is one argument, whatever
 * it holds; %b takes a pointer and a size_t. */
enum rl_outcome rl_check(struct rl_limiter *limiter, struct rl_verdict *verdict, const char *format, ...);

/* Pipelined: as many rl_append as you like, then one rl_next for each, in their order. */
void rl_append(struct rl_limiter *limiter, const char *format, ...);
enum rl_outcome rl_next(struct rl_limiter *limiter, struct rl_verdict *verdict);

/* The HTTP answer. A bug is answered with 500. */
struct rl_answer rl_answer(enum rl_outcome outcome, const struct rl_verdict *verdict, enum rl_when_down when_down);

#endif
