"""Rate limiting with redis-py (4 and newer), for any web framework."""

from typing import NamedTuple, Optional

import redis
from redis import cluster as redis_cluster
from redis.backoff import NoBackoff
from redis.retry import Retry

OPEN, CLOSED = "open", "closed"  # without a verdict: let the request through, or refuse it

# The server cannot decide now. Every other error (ERR, WRONGTYPE, NOPERM, ...) is a bug or a wrong
# set-up and is raised: neither open nor closed would show it.
NO_VERDICT = {
    "LOADING", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "MISCONF", "NOREPLICAS", "OOM", "TRYAGAIN", "BUSY",
}
# redis-py cuts the first word off the errors that it has a class for.
NO_VERDICT_CLASSES = tuple(
    getattr(redis.exceptions, name)
    for name in ("ConnectionError", "TimeoutError", "ClusterDownError", "ClusterError", "MasterDownError",
                 "ReadOnlyError", "OutOfMemoryError", "TryAgainError", "RedisClusterException")
    if hasattr(redis.exceptions, name)
)
# These are connection errors to redis-py, but waiting does not help.
WRONG_SETUP = tuple(
    getattr(redis.exceptions, name)
    for name in ("AuthenticationError", "AuthorizationError")
    if hasattr(redis.exceptions, name)
)


class Verdict(NamedTuple):
    allowed: bool
    limit: int
    remaining: int
    retry_after_ms: int  # -1: this call will never succeed
    reset_after_ms: int


def connect(host="127.0.0.1", port=6379, timeout_s=0.1):
    # No retries (newer versions make ten): a call that is sent twice may be charged twice.
    return redis.Redis(
        host=host, port=port, socket_timeout=timeout_s, socket_connect_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
    )


def connect_cluster(host="127.0.0.1", port=6379, timeout_s=0.1):
    # The constructor asks a node for the slots: without one it raises.
    return redis_cluster.RedisCluster(
        host=host, port=port, socket_timeout=timeout_s, socket_connect_timeout=timeout_s
    )


def check(client, *command) -> Optional[Verdict]:
    """check(client, "RL.BUCKET", "user:42", "50", 200). None: no verdict."""
    try:
        return _verdict(client.execute_command(*command))
    except redis.RedisError as error:
        return _without_verdict(error)


def check_many(client, commands) -> list:
    """Many calls in one round trip (of a cluster client: one for each node)."""
    pipeline = client.pipeline() if _is_cluster(client) else client.pipeline(transaction=False)
    for command in commands:
        pipeline.execute_command(*command)
    try:
        replies = pipeline.execute(raise_on_error=False)
    except redis.RedisError as error:
        return [_without_verdict(error) for _ in commands]
    return [_without_verdict(r) if isinstance(r, Exception) else _verdict(r) for r in replies]


def answer(verdict: Optional[Verdict], when_down):
    """The HTTP answer: (status, headers, sentence). 200 means: go on and send the headers along."""
    if when_down not in (OPEN, CLOSED):
        raise ValueError("when_down is OPEN or CLOSED")
    if verdict is None:
        if when_down == OPEN:
            return 200, {}, ""
        sentence = "We cannot check your request limit right now. Please try again in a few seconds."
        return 503, {"Retry-After": "5"}, sentence
    headers = {
        "X-RateLimit-Limit": str(verdict.limit),
        "X-RateLimit-Remaining": str(verdict.remaining),
        "X-RateLimit-Reset": str(_seconds(verdict.reset_after_ms)),
    }
    if verdict.allowed:
        return 200, headers, ""
    if verdict.retry_after_ms < 0:
        sentence = f"This request exceeds your limit of {verdict.limit}. Trying again will not help."
        return 429, headers, sentence
    seconds = _seconds(verdict.retry_after_ms)
    headers["Retry-After"] = str(seconds)
    return 429, headers, f"You have sent too many requests. Please try again in {_words(seconds)}."


def _verdict(reply) -> Verdict:
    allowed, *numbers = reply[:5]  # RL.TAKE answers more
    return Verdict(allowed > 0, *numbers)


def _without_verdict(error):
    passing = isinstance(error, NO_VERDICT_CLASSES) and not isinstance(error, WRONG_SETUP)
    # A pipeline puts "Command # 1 (...) of pipeline caused error: " before the server's text.
    first_word = str(error).rpartition("caused error: ")[2].partition(" ")[0]
    if passing or first_word in NO_VERDICT:
        return None
    raise error


def _is_cluster(client):
    return isinstance(client, redis_cluster.RedisCluster)


def _seconds(ms):
    return -(-ms // 1000)  # rounded up: who comes back early is refused again


def _words(seconds):
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
        if seconds >= 2 * size or size == 1:
            count = -(-seconds // size)
            return f"{count} {unit}" + ("" if count == 1 else "s")
