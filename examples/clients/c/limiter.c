#include "limiter.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const NO_VERDICT[] = {
    "LOADING", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "MISCONF", "NOREPLICAS", "OOM", "TRYAGAIN", "BUSY",
};

static void drop(struct rl_limiter *limiter) {
    if (limiter->context != NULL) redisFree(limiter->context);
    limiter->context = NULL;
}

void rl_close(struct rl_limiter *limiter) {
    drop(limiter);
    limiter->pending = 0;
}

static void connect_if_needed(struct rl_limiter *limiter) {
    const struct timeval timeout = {limiter->timeout_ms / 1000, limiter->timeout_ms % 1000 * 1000};
    /* Once for a pipeline: what follows a failed call in it has no verdict, either. */
    if (limiter->context != NULL || limiter->pending > 0) return;
    limiter->context = redisConnectWithTimeout(limiter->host, limiter->port, timeout);
    if (limiter->context != NULL && (limiter->context->err || redisSetTimeout(limiter->context, timeout) != REDIS_OK))
        drop(limiter);
}

static void append(struct rl_limiter *limiter, const char *format, va_list arguments) {
    connect_if_needed(limiter);
    limiter->pending++;
    if (limiter->context != NULL && redisvAppendCommand(limiter->context, format, arguments) != REDIS_OK)
        drop(limiter);
}

void rl_append(struct rl_limiter *limiter, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    append(limiter, format, arguments);
    va_end(arguments);
}

static enum rl_outcome judge(struct rl_limiter *limiter, const redisReply *reply, struct rl_verdict *verdict) {
    if (reply->type == REDIS_REPLY_ERROR) {
        const size_t length = strcspn(reply->str, " ");
        snprintf(limiter->error, sizeof limiter->error, "%s", reply->str);
        for (size_t i = 0; i < sizeof NO_VERDICT / sizeof *NO_VERDICT; i++)
            if (strlen(NO_VERDICT[i]) == length && memcmp(NO_VERDICT[i], reply->str, length) == 0)
                return RL_NO_VERDICT;
        return RL_BUG;
    }
    /* RL.TAKE answers more than five. */
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 5) {
        snprintf(limiter->error, sizeof limiter->error, "not the reply of a limiting command");
        return RL_BUG;
    }
    verdict->allowed = reply->element[0]->integer > 0;
    verdict->limit = reply->element[1]->integer;
    verdict->remaining = reply->element[2]->integer;
    verdict->retry_after_ms = reply->element[3]->integer;
    verdict->reset_after_ms = reply->element[4]->integer;
    return RL_VERDICT;
}

enum rl_outcome rl_next(struct rl_limiter *limiter, struct rl_verdict *verdict) {
    void *reply = NULL;
    enum rl_outcome outcome;
    if (limiter->pending > 0) limiter->pending--;
    if (limiter->context == NULL) return RL_NO_VERDICT;
    if (redisGetReply(limiter->context, &reply) != REDIS_OK) {
        /* An answer that comes late must not be taken for the next one's. */
        snprintf(limiter->error, sizeof limiter->error, "%s", limiter->context->errstr);
        drop(limiter);
        return RL_NO_VERDICT;
    }
    outcome = judge(limiter, reply, verdict);
    freeReplyObject(reply);
    return outcome;
}

enum rl_outcome rl_check(struct rl_limiter *limiter, struct rl_verdict *verdict, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    append(limiter, format, arguments);
    va_end(arguments);
    return rl_next(limiter, verdict);
}

/* Rounded up: who comes back early is refused again. */
static long long seconds(long long ms) { return ms / 1000 + (ms % 1000 > 0); }

static void say_wait(char *sentence, size_t size, long long wait) {
    static const struct {
        long long size;
        const char *name;
    } units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}};
    size_t i = 0;
    while (units[i].size > 1 && wait < 2 * units[i].size) i++;
    const long long count = (wait + units[i].size - 1) / units[i].size;
    snprintf(sentence, size, "You have sent too many requests. Please try again in %lld %s%s.", count, units[i].name,
             count == 1 ? "" : "s");
}

struct rl_answer rl_answer(enum rl_outcome outcome, const struct rl_verdict *verdict, enum rl_when_down when_down) {
    struct rl_answer answer = {.status = 200};
    if (outcome == RL_BUG) {
        answer.status = 500;
        snprintf(answer.sentence, sizeof answer.sentence, "Something went wrong on our side.");
        return answer;
    }
    if (outcome == RL_NO_VERDICT) {
        if (when_down == RL_OPEN) return answer;
        answer.status = 503;
        snprintf(answer.headers, sizeof answer.headers, "Retry-After: 5\r\n");
        snprintf(answer.sentence, sizeof answer.sentence,
                 "We cannot check your request limit right now. Please try again in a few seconds.");
        return answer;
    }
    int length = snprintf(answer.headers, sizeof answer.headers,
                          "X-RateLimit-Limit: %lld\r\nX-RateLimit-Remaining: %lld\r\nX-RateLimit-Reset: %lld\r\n",
                          verdict->limit, verdict->remaining, seconds(verdict->reset_after_ms));
    if (verdict->allowed) return answer;
    answer.status = 429;
    if (verdict->retry_after_ms < 0) {
        snprintf(answer.sentence, sizeof answer.sentence,
                 "This request exceeds your limit of %lld. Trying again will not help.", verdict->limit);
        return answer;
    }
    const long long wait = seconds(verdict->retry_after_ms);
    snprintf(answer.headers + length, sizeof answer.headers - length, "Retry-After: %lld\r\n", wait);
    say_wait(answer.sentence, sizeof answer.sentence, wait);
    return answer;
}
