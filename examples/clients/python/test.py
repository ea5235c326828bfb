"""Run by scripts/test-clients; prints a line for each test."""

import os
import sys
import time
import traceback
import uuid

import redis
from limiter import CLOSED, OPEN, Verdict, answer, check, check_many, connect, connect_cluster

CLIENT = connect(port=int(os.environ["RL_PORT"]), timeout_s=5)
RUN = uuid.uuid4().hex


def bucket(subject, cost=1):
    return ("RL.BUCKET", f"{RUN}:{subject}", "1/1h", 5, cost)


def test_allowed():
    status, headers, _ = answer(check(CLIENT, *bucket("allowed")), OPEN)
    assert status == 200
    assert headers == {"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "4", "X-RateLimit-Reset": "3600"}, headers


def test_refused():
    verdicts = [check(CLIENT, *bucket("refused")) for _ in range(6)]
    assert [v.allowed for v in verdicts] == [True] * 5 + [False]
    status, headers, sentence = answer(verdicts[5], OPEN)
    assert status == 429
    assert headers["X-RateLimit-Remaining"] == "0" and headers["Retry-After"] == "3600", headers
    assert sentence == "You have sent too many requests. Please try again in 60 minutes.", sentence


def test_never():
    status, headers, sentence = answer(check(CLIENT, *bucket("never", 6)), OPEN)
    assert status == 429 and "Retry-After" not in headers
    assert sentence == "This request exceeds your limit of 5. Trying again will not help."


def test_rounding():
    for ms, seconds, words in ((1, "1", "1 second"), (1000, "1", "1 second"), (1250, "2", "2 seconds"),
                               (119001, "120", "2 minutes"), (172800000, "172800", "2 days")):
        _, headers, sentence = answer(Verdict(False, 5, 0, ms, ms), OPEN)
        assert headers["Retry-After"] == headers["X-RateLimit-Reset"] == seconds
        assert sentence.endswith(f" {words}."), sentence


def test_layers():
    take = ("RL.TAKE", f"{RUN}:layers", "COST", 5, "BUCKET", "50", 200, "QUOTA", "day", 7)
    first, second = check(CLIENT, *take), check(CLIENT, *take)
    assert first.allowed and first.limit == 7 and first.remaining == 2
    assert not second.allowed and second.remaining == 2 and 0 < second.retry_after_ms <= 86400000


def test_pipelined():
    verdicts = check_many(CLIENT, [bucket("pipelined")] * 8 + [bucket("another")])
    assert [v.allowed for v in verdicts] == [True] * 5 + [False] * 3 + [True]


def test_down_and_silent():
    for port in ("RL_DOWN_PORT", "RL_SILENT_PORT"):
        client = connect(port=int(os.environ[port]))
        started = time.monotonic()
        assert check(client, *bucket("x")) is None
        assert check_many(client, [bucket("x")] * 2) == [None, None]
        assert time.monotonic() - started < 3
    assert answer(None, OPEN) == (200, {}, "")
    status, headers, sentence = answer(None, CLOSED)
    assert status == 503 and headers == {"Retry-After": "5"} and "try again" in sentence


def test_no_verdict_errors():
    client = connect(port=int(os.environ["RL_REPLICA_PORT"]), timeout_s=5)
    assert check(client, *bucket("x")) is None  # READONLY
    assert check_many(client, [bucket("x")]) == [None]


def test_wrong_call_is_raised():
    for call in (lambda: check(CLIENT, "RL.BUCKET", "x", "fast", 5),
                 lambda: check_many(CLIENT, [("RL.BUCKET", "x", "fast", 5)])):
        try:
            call()
        except redis.ResponseError:
            continue
        raise AssertionError("a malformed call must not pass silently")


def test_cluster():
    client = connect_cluster(port=int(os.environ["RL_CLUSTER_PORT"]), timeout_s=5)
    for n in range(20):  # their slots lie on all nodes
        verdicts = [check(client, *bucket(n, 3)) for _ in range(2)]
        assert [v.allowed for v in verdicts] == [True, False]
    verdicts = check_many(client, [bucket(n, 2) for n in range(20)] * 2)
    assert [v.allowed for v in verdicts] == [True] * 20 + [False] * 20


failed = False
for name, test in [(n, t) for n, t in list(globals().items()) if n.startswith("test_")]:
    label = name[5:].replace("_", " ")
    try:
        test()
        print(f"ok {label}")
    except Exception:
        failed = True
        traceback.print_exc()
        print(f"FAILED {label}")
print(f"client redis-py {redis.__version__}")
sys.exit(failed)
