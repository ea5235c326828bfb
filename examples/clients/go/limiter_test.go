package limiter

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Run by scripts/test-clients, which starts the servers and names their ports.

const patient = 5 * time.Second

var run = func() string {
	id := make([]byte, 8)
	if _, err := rand.Read(id); err != nil {
		panic(err)
	}
	return hex.EncodeToString(id)
}()

func address(port string) string { return "127.0.0.1:" + os.Getenv(port) }

var server = New(address("RL_PORT"), patient)

func bucket(subject string, cost int) Call {
	return Call{"RL.BUCKET", run + ":" + subject, "1/1h", 5, cost}
}

func check(t *testing.T, l *Limiter, call Call) Verdict {
	t.Helper()
	v, err := l.Check(call)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func same(t *testing.T, expected, found interface{}) {
	t.Helper()
	if !reflect.DeepEqual(expected, found) {
		t.Fatalf("expected %v, found %v", expected, found)
	}
}

func allowed(verdicts []Verdict) string {
	text := ""
	for _, v := range verdicts {
		text += map[bool]string{true: "y", false: "n"}[v.Allowed]
	}
	return text
}

func TestAllowed(t *testing.T) {
	status, headers, _ := Answer(check(t, server, bucket("allowed", 1)), nil, Open)
	same(t, 200, status)
	same(t, map[string]string{
		"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "4", "X-RateLimit-Reset": "3600",
	}, headers)
}

func TestRefused(t *testing.T) {
	var verdicts []Verdict
	for n := 0; n < 6; n++ {
		verdicts = append(verdicts, check(t, server, bucket("refused", 1)))
	}
	same(t, "yyyyyn", allowed(verdicts))
	status, headers, sentence := Answer(verdicts[5], nil, Open)
	same(t, 429, status)
	same(t, "0", headers["X-RateLimit-Remaining"])
	same(t, "3600", headers["Retry-After"])
	same(t, "You have sent too many requests. Please try again in 60 minutes.", sentence)
}

func TestNever(t *testing.T) {
	status, headers, sentence := Answer(check(t, server, bucket("never", 6)), nil, Open)
	same(t, 429, status)
	same(t, "", headers["Retry-After"])
	same(t, "This request exceeds your limit of 5. Trying again will not help.", sentence)
}

func TestRounding(t *testing.T) {
	for _, c := range []struct {
		ms             int64
		seconds, words string
	}{{1, "1", "1 second"}, {1000, "1", "1 second"}, {1250, "2", "2 seconds"},
		{119001, "120", "2 minutes"}, {172800000, "172800", "2 days"}} {
		_, headers, sentence := Answer(Verdict{false, 5, 0, c.ms, c.ms}, nil, Open)
		same(t, c.seconds, headers["Retry-After"])
		same(t, c.seconds, headers["X-RateLimit-Reset"])
		same(t, true, strings.HasSuffix(sentence, " "+c.words+"."))
	}
}

func TestLayers(t *testing.T) {
	take := Call{"RL.TAKE", run + ":layers", "COST", 5, "BUCKET", "50", 200, "QUOTA", "day", 7}
	first, second := check(t, server, take), check(t, server, take)
	same(t, Verdict{true, 7, 2, 0, first.ResetAfterMs}, first)
	same(t, false, second.Allowed)
	same(t, true, second.RetryAfterMs > 0 && second.RetryAfterMs <= 86400000)
}

func TestPipelined(t *testing.T) {
	var calls []Call
	for n := 0; n < 8; n++ {
		calls = append(calls, bucket("pipelined", 1))
	}
	verdicts, err := server.CheckMany(append(calls, bucket("another", 1)))
	same(t, nil, err)
	same(t, "yyyyynnny", allowed(verdicts))
}

func TestDownAndSilent(t *testing.T) {
	for _, port := range []string{"RL_DOWN_PORT", "RL_SILENT_PORT"} {
		for _, l := range []*Limiter{
			New(address(port), 100*time.Millisecond),
			NewCluster([]string{address(port)}, 100*time.Millisecond),
		} {
			started := time.Now()
			_, err := l.Check(bucket("x", 1))
			if !errors.Is(err, ErrNoVerdict) {
				t.Fatal(err)
			}
			if _, err := l.CheckMany([]Call{bucket("x", 1)}); !errors.Is(err, ErrNoVerdict) {
				t.Fatal(err)
			}
			same(t, true, time.Since(started) < 3*time.Second)
			status, headers, _ := Answer(Verdict{}, err, Open)
			same(t, 200, status)
			same(t, map[string]string{}, headers)
			status, headers, sentence := Answer(Verdict{}, err, Closed)
			same(t, 503, status)
			same(t, "5", headers["Retry-After"])
			same(t, true, strings.Contains(sentence, "try again"))
		}
	}
}

func TestNoVerdictErrors(t *testing.T) {
	replica := New(address("RL_REPLICA_PORT"), patient)
	if _, err := replica.Check(bucket("x", 1)); !errors.Is(err, ErrNoVerdict) { // READONLY
		t.Fatal(err)
	}
}

func TestWrongCallIsAnError(t *testing.T) {
	wrong := Call{"RL.BUCKET", "x", "fast", 5}
	_, err := server.Check(wrong)
	same(t, true, err != nil && !errors.Is(err, ErrNoVerdict))
	_, err = server.CheckMany([]Call{wrong})
	same(t, true, err != nil && !errors.Is(err, ErrNoVerdict))
	status, _, _ := Answer(Verdict{}, err, Open)
	same(t, 500, status)
}

func TestCluster(t *testing.T) {
	cluster := NewCluster([]string{address("RL_CLUSTER_PORT")}, patient)
	var calls []Call
	for n := 0; n < 20; n++ { // their slots lie on all nodes
		call := bucket(fmt.Sprint(n), 3)
		same(t, "yn", allowed([]Verdict{check(t, cluster, call), check(t, cluster, call)}))
		calls = append(calls, bucket(fmt.Sprint(n), 2))
	}
	verdicts, err := cluster.CheckMany(append(calls, calls...))
	same(t, nil, err)
	same(t, strings.Repeat("y", 20)+strings.Repeat("n", 20), allowed(verdicts))
}
