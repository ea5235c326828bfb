/* Run by scripts/test-clients; prints a line for each test. */
#define _POSIX_C_SOURCE 200809L

#include "limiter.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char run[64];
static int failures;
static bool passing;

#define CHECK(what)                                           \
    do {                                                      \
        if (!(what)) {                                        \
            printf("line %d: not so: %s\n", __LINE__, #what); \
            passing = false;                                  \
        }                                                     \
    } while (0)

static struct rl_limiter limiter_on(const char *port, int timeout_ms) {
    return (struct rl_limiter){.host = "127.0.0.1", .port = atoi(getenv(port)), .timeout_ms = timeout_ms};
}

static struct rl_limiter server;

static struct rl_verdict take(const char *subject, int cost) {
    struct rl_verdict verdict = {0};
    CHECK(rl_check(&server, &verdict, "RL.BUCKET %s:%s 1/1h 5 %d", run, subject, cost) == RL_VERDICT);
    return verdict;
}

static void allowed(void) {
    const struct rl_verdict verdict = take("allowed", 1);
    const struct rl_answer answer = rl_answer(RL_VERDICT, &verdict, RL_OPEN);
    CHECK(answer.status == 200);
    CHECK(strcmp(answer.headers,
                 "X-RateLimit-Limit: 5\r\nX-RateLimit-Remaining: 4\r\nX-RateLimit-Reset: 3600\r\n") == 0);
}

static void refused(void) {
    struct rl_verdict verdict;
    for (int n = 0; n < 6; n++) {
        verdict = take("refused", 1);
        CHECK(verdict.allowed == (n < 5));
    }
    const struct rl_answer answer = rl_answer(RL_VERDICT, &verdict, RL_OPEN);
    CHECK(answer.status == 429);
    CHECK(strstr(answer.headers, "X-RateLimit-Remaining: 0\r\n") != NULL);
    CHECK(strstr(answer.headers, "Retry-After: 3600\r\n") != NULL);
    CHECK(strcmp(answer.sentence, "You have sent too many requests. Please try again in 60 minutes.") == 0);
}

static void never(void) {
    const struct rl_verdict verdict = take("never", 6);
    const struct rl_answer answer = rl_answer(RL_VERDICT, &verdict, RL_OPEN);
    CHECK(answer.status == 429 && strstr(answer.headers, "Retry-After") == NULL);
    CHECK(strcmp(answer.sentence, "This request exceeds your limit of 5. Trying again will not help.") == 0);
}

static void rounding(void) {
    static const struct {
        long long ms;
        const char *header, *words;
    } cases[] = {{1, "Retry-After: 1\r\n", " 1 second."},
                 {1000, "Retry-After: 1\r\n", " 1 second."},
                 {1250, "Retry-After: 2\r\n", " 2 seconds."},
                 {119001, "Retry-After: 120\r\n", " 2 minutes."},
                 {172800000, "Retry-After: 172800\r\n", " 2 days."}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct rl_verdict verdict = {false, 5, 0, cases[i].ms, cases[i].ms};
        const struct rl_answer answer = rl_answer(RL_VERDICT, &verdict, RL_OPEN);
        CHECK(strstr(answer.headers, cases[i].header) != NULL);
        CHECK(strstr(answer.sentence, cases[i].words) != NULL);
    }
}

static void layers(void) {
    struct rl_verdict verdict = {0};
    const char *call = "RL.TAKE %s:layers COST 5 BUCKET 50 200 QUOTA day 7";
    CHECK(rl_check(&server, &verdict, call, run) == RL_VERDICT);
    CHECK(verdict.allowed && verdict.limit == 7 && verdict.remaining == 2);
    CHECK(rl_check(&server, &verdict, call, run) == RL_VERDICT);
    CHECK(!verdict.allowed && verdict.retry_after_ms > 0 && verdict.retry_after_ms <= 86400000);
}

static void pipelined(void) {
    struct rl_verdict verdict;
    for (int n = 0; n < 8; n++) rl_append(&server, "RL.BUCKET %s:pipelined 1/1h 5", run);
    rl_append(&server, "RL.BUCKET %s:another 1/1h 5", run);
    for (int n = 0; n < 9; n++) {
        CHECK(rl_next(&server, &verdict) == RL_VERDICT);
        CHECK(verdict.allowed == (n < 5 || n == 8));
    }
}

static void down_and_silent(void) {
    static const char *const ports[] = {"RL_DOWN_PORT", "RL_SILENT_PORT"};
    struct rl_verdict verdict = {0};
    for (int i = 0; i < 2; i++) {
        struct rl_limiter other = limiter_on(ports[i], 100);
        const time_t started = time(NULL);
        CHECK(rl_check(&other, &verdict, "RL.BUCKET x 1 5") == RL_NO_VERDICT);
        rl_append(&other, "RL.BUCKET x 1 5");
        rl_append(&other, "RL.BUCKET x 1 5");
        CHECK(rl_next(&other, &verdict) == RL_NO_VERDICT);
        CHECK(rl_next(&other, &verdict) == RL_NO_VERDICT);
        CHECK(time(NULL) - started < 3);
        rl_close(&other);
    }
    struct rl_answer answer = rl_answer(RL_NO_VERDICT, NULL, RL_OPEN);
    CHECK(answer.status == 200 && answer.headers[0] == '\0');
    answer = rl_answer(RL_NO_VERDICT, NULL, RL_CLOSED);
    CHECK(answer.status == 503 && strcmp(answer.headers, "Retry-After: 5\r\n") == 0);
    CHECK(strstr(answer.sentence, "try again") != NULL);
}

static void no_verdict_errors(void) {
    struct rl_verdict verdict;
    struct rl_limiter replica = limiter_on("RL_REPLICA_PORT", 5000);
    CHECK(rl_check(&replica, &verdict, "RL.BUCKET x 1 5") == RL_NO_VERDICT);
    CHECK(strncmp(replica.error, "READONLY ", 9) == 0);
    rl_close(&replica);
}

static void wrong_call_is_a_bug(void) {
    struct rl_verdict verdict = {0};
    CHECK(rl_check(&server, &verdict, "RL.BUCKET x fast 5") == RL_BUG);
    CHECK(strncmp(server.error, "ERR ", 4) == 0);
    CHECK(rl_answer(RL_BUG, &verdict, RL_OPEN).status == 500);
}

int main(void) {
    static const struct {
        const char *name;
        void (*test)(void);
    } tests[] = {{"allowed", allowed},
                 {"refused", refused},
                 {"never", never},
                 {"rounding", rounding},
                 {"layers", layers},
                 {"pipelined", pipelined},
                 {"down and silent", down_and_silent},
                 {"no verdict errors", no_verdict_errors},
                 {"wrong call is a bug", wrong_call_is_a_bug}};
    signal(SIGPIPE, SIG_IGN);
    server = limiter_on("RL_PORT", 5000);
    snprintf(run, sizeof run, "%lld.%ld", (long long)time(NULL), (long)getpid());
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        passing = true;
        tests[i].test();
        printf("%s %s\n", passing ? "ok" : "FAILED", tests[i].name);
        failures += !passing;
    }
    printf("client hiredis %d.%d.%d\n", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
    rl_close(&server);
    return failures > 0;
}
