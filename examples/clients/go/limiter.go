// Package limiter shows rate limiting with redigo (and redisc for clusters), for any HTTP server.
package limiter

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
)

// Verdict is the answer to one call.
type Verdict struct {
	Allowed      bool
	Limit        int64
	Remaining    int64
	RetryAfterMs int64 // -1: this call will never succeed
	ResetAfterMs int64
}

// WhenDown says what to do without a verdict. The zero value is refused: choose.
type WhenDown int

const (
	Open   WhenDown = iota + 1 // let the request through
	Closed                     // refuse it
)

// Call is a command and its arguments: Call{"RL.BUCKET", "user:42", "50", 200}.
type Call []interface{}

// ErrNoVerdict says that the server could not decide. Every other error (ERR, WRONGTYPE, NOPERM, …)
// is a bug or a wrong set-up: neither open nor closed would show it.
var ErrNoVerdict = errors.New("no verdict")

var noVerdict = map[string]bool{
	"LOADING": true, "CLUSTERDOWN": true, "MASTERDOWN": true, "READONLY": true, "MISCONF": true,
	"NOREPLICAS": true, "OOM": true, "TRYAGAIN": true, "BUSY": true,
}

// Limiter checks on one server or on a cluster. It may be used by many goroutines.
type Limiter struct {
	conns   interface{ Get() redis.Conn }
	cluster bool
}

func options(timeout time.Duration) []redis.DialOption {
	return []redis.DialOption{
		redis.DialConnectTimeout(timeout), redis.DialReadTimeout(timeout), redis.DialWriteTimeout(timeout),
	}
}

func pool(address string, options ...redis.DialOption) (*redis.Pool, error) {
	dial := func() (redis.Conn, error) { return redis.Dial("tcp", address, options...) }
	return &redis.Pool{Dial: dial, MaxIdle: 16, IdleTimeout: time.Minute}, nil
}

// New makes a limiter on one server. A tenth of a second is a good timeout.
func New(address string, timeout time.Duration) *Limiter {
	conns, _ := pool(address, options(timeout)...)
	return &Limiter{conns: conns}
}

// NewCluster makes a limiter on a cluster.
func NewCluster(addresses []string, timeout time.Duration) *Limiter {
	return &Limiter{cluster: true, conns: &redisc.Cluster{
		StartupNodes: addresses, DialOptions: options(timeout), CreatePool: pool,
	}}
}

// Check makes one call. Its error is ErrNoVerdict (wrapped), or a bug.
func (l *Limiter) Check(call Call) (Verdict, error) {
	conn := l.conns.Get()
	defer conn.Close()
	if l.cluster {
		// Follows redirections.
		retrying, err := redisc.RetryConn(conn, 3, 10*time.Millisecond)
		if err != nil {
			return Verdict{}, judge(err)
		}
		conn = retrying
	}
	return verdict(conn.Do(call[0].(string), call[1:]...))
}

// CheckMany makes many calls in one round trip; in a cluster one by one, as redisc has no pipeline
// over several nodes. The first error ends it.
func (l *Limiter) CheckMany(calls []Call) ([]Verdict, error) {
	verdicts := make([]Verdict, 0, len(calls))
	if l.cluster {
		for _, call := range calls {
			v, err := l.Check(call)
			if err != nil {
				return nil, err
			}
			verdicts = append(verdicts, v)
		}
		return verdicts, nil
	}
	conn := l.conns.Get()
	defer conn.Close() // reads what is left
	for _, call := range calls {
		if err := conn.Send(call[0].(string), call[1:]...); err != nil {
			return nil, judge(err)
		}
	}
	if err := conn.Flush(); err != nil {
		return nil, judge(err)
	}
	for range calls {
		v, err := verdict(conn.Receive())
		if err != nil {
			return nil, err
		}
		verdicts = append(verdicts, v)
	}
	return verdicts, nil
}

// Answer is the HTTP answer: status, headers and a sentence for people. Status 200 means: go on and
// send the headers along. An error other than ErrNoVerdict is a bug: answer 500 and log it.
func Answer(v Verdict, err error, whenDown WhenDown) (int, map[string]string, string) {
	if whenDown != Open && whenDown != Closed {
		panic("whenDown is Open or Closed")
	}
	if err != nil && !errors.Is(err, ErrNoVerdict) {
		return 500, map[string]string{}, "Something went wrong on our side."
	}
	if err != nil && whenDown == Open {
		return 200, map[string]string{}, ""
	}
	if err != nil {
		return 503, map[string]string{"Retry-After": "5"},
			"We cannot check your request limit right now. Please try again in a few seconds."
	}
	headers := map[string]string{
		"X-RateLimit-Limit":     strconv.FormatInt(v.Limit, 10),
		"X-RateLimit-Remaining": strconv.FormatInt(v.Remaining, 10),
		"X-RateLimit-Reset":     strconv.FormatInt(seconds(v.ResetAfterMs), 10),
	}
	if v.Allowed {
		return 200, headers, ""
	}
	if v.RetryAfterMs < 0 {
		return 429, headers,
			fmt.Sprintf("This request exceeds your limit of %d. Trying again will not help.", v.Limit)
	}
	wait := seconds(v.RetryAfterMs)
	headers["Retry-After"] = strconv.FormatInt(wait, 10)
	return 429, headers, "You have sent too many requests. Please try again in " + words(wait) + "."
}

func verdict(reply interface{}, err error) (Verdict, error) {
	if err != nil {
		return Verdict{}, judge(err)
	}
	values, err := redis.Values(reply, nil)
	if err != nil {
		return Verdict{}, err
	}
	var v Verdict
	var granted int64
	// RL.TAKE answers more than five.
	_, err = redis.Scan(values, &granted, &v.Limit, &v.Remaining, &v.RetryAfterMs, &v.ResetAfterMs)
	v.Allowed = granted > 0
	return v, err
}

// judge tells an unreachable or unable server from a bug. What is not the server's own word is a
// failure to reach it.
func judge(err error) error {
	var reply redis.Error
	if errors.As(err, &reply) && !noVerdict[strings.SplitN(string(reply), " ", 2)[0]] {
		return err
	}
	return fmt.Errorf("%w: %v", ErrNoVerdict, err)
}

// seconds rounds up: who comes back early is refused again.
func seconds(ms int64) int64 {
	return (ms + 999) / 1000
}

func words(wait int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{86400, "days"}, {3600, "hours"}, {60, "minutes"}} {
		if wait >= 2*unit.size {
			return fmt.Sprintf("%d %s", (wait+unit.size-1)/unit.size, unit.name)
		}
	}
	if wait == 1 {
		return "1 second"
	}
	return fmt.Sprintf("%d seconds", wait)
}
