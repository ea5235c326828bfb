<?php

// Run by scripts/test-clients; prints a line for each test.
//
// The race of Laravel's own limiter, and the same code with AtomicRateLimiter: 100 processes at once,
// on a real server, with Laravel's own packages.

declare(strict_types=1);

use App\RateLimiting\AtomicRateLimiter;
use Illuminate\Cache\RateLimiter;
use Illuminate\Cache\RateLimiting\Limit;
use Illuminate\Cache\RedisStore;
use Illuminate\Cache\Repository;
use Illuminate\Container\Container;
use Illuminate\Http\Exceptions\ThrottleRequestsException;
use Illuminate\Http\Request;
use Illuminate\Http\Response;
use Illuminate\Redis\RedisManager;
use Illuminate\Routing\Middleware\ThrottleRequests;
use Illuminate\Routing\Route;
use Symfony\Component\HttpKernel\Exception\ServiceUnavailableHttpException;

error_reporting(E_ALL & ~E_DEPRECATED); // these packages are older than this PHP
foreach (['Cache', 'Redis', 'Container', 'Http', 'Routing'] as $part) {
    require_once "Illuminate/$part/autoload.php";
}
require __DIR__ . '/AtomicRateLimiter.php';

const PARALLEL = 100;
const LIMIT = 5;

function redis(string $port = 'RL_PORT', float $timeout = 10): RedisManager
{
    $server = ['host' => '127.0.0.1', 'port' => (int) getenv($port), 'timeout' => $timeout, 'read_timeout' => $timeout];
    return new RedisManager(new Container(), 'phpredis', $port === 'RL_CLUSTER_PORT'
        ? ['options' => ['cluster' => 'redis'], 'clusters' => ['default' => [$server]]]
        : ['default' => $server]);
}

function laravels(): RateLimiter
{
    return new RateLimiter(new Repository(new RedisStore(redis())));
}

function ours(string $port = 'RL_PORT', string $whenDown = AtomicRateLimiter::CLOSED, float $timeout = 10): AtomicRateLimiter
{
    return new AtomicRateLimiter(redis($port, $timeout), $whenDown);
}

function fresh_key(): string
{
    return bin2hex(random_bytes(8));
}

function same(mixed $expected, mixed $found): void
{
    if ($expected !== $found) {
        throw new Exception('expected ' . json_encode($expected) . ', found ' . json_encode($found));
    }
}

function thrown(string $class, Closure $call): Throwable
{
    try {
        $call();
    } catch (Throwable $error) {
        return $error instanceof $class ? $error : throw $error;
    }
    throw new Exception("no $class was thrown");
}

/** The code in question: it stands in many applications, and in Laravel's own middleware. */
function guarded(RateLimiter $limiter, string $key): bool
{
    if ($limiter->tooManyAttempts($key, LIMIT)) {
        return false;
    }
    $limiter->hit($key, 60);

    return true;
}

function attempted(RateLimiter $limiter, string $key): bool
{
    return (bool) $limiter->attempt($key, LIMIT, static function (): void {
        usleep(5000); // the work
    });
}

/** Laravel's middleware, as `throttle:5,1` runs it. */
function throttled(RateLimiter $limiter, string $key): bool
{
    return throttle($limiter, $key)->getStatusCode() === 200;
}

function throttle(RateLimiter $limiter, string $key, int|string $limit = LIMIT): Response
{
    $request = Request::create('/');
    $request->setUserResolver(static fn () => null);
    $request->setRouteResolver(static fn () => new Route('GET', '/', static fn () => null));
    $middleware = new ThrottleRequests($limiter);
    $next = static fn () => new Response('done');
    return is_int($limit) ? $middleware->handle($request, $next, $limit, 1, $key) : $middleware->handle($request, $next, $limit);
}

/** How many of 100 processes pass that all start at the same moment. */
function passing(Closure $limiter, callable $code): int
{
    $code($limiter(), fresh_key()); // loads the classes, once for all
    $key = fresh_key();
    $path = tempnam(sys_get_temp_dir(), 'gate');
    $gate = fopen($path, 'r');
    flock($gate, LOCK_EX);
    [$ready, $tell] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, STREAM_IPPROTO_IP);
    $children = [];
    for ($n = 0; $n < PARALLEL; $n++) {
        $child = pcntl_fork();
        if ($child === 0) {
            $status = 2;
            try {
                $own = $limiter();
                $own->attempts('connect');
                $mine = fopen($path, 'r');
                fwrite($tell, '.');
                flock($mine, LOCK_SH); // until the gate opens
                $status = $code($own, $key) ? 0 : 1;
            } catch (ThrottleRequestsException) {
                $status = 1;
            } catch (Throwable $error) {
                echo "$error\n";
            }
            exit($status);
        }
        $children[] = $child;
    }
    for ($n = 0; $n < PARALLEL; $n++) {
        fread($ready, 1);
    }
    flock($gate, LOCK_UN);
    unlink($path);
    $counts = [0, 0, 0];
    foreach ($children as $child) {
        pcntl_waitpid($child, $status);
        $counts[min(2, pcntl_wexitstatus($status))]++;
    }
    if ($counts[2] > 0) {
        throw new Exception("$counts[2] processes failed");
    }
    return $counts[0];
}

/** The race needs luck, but not much. */
function race(callable $code): void
{
    for ($round = 1, $most = 0; $round <= 10; $round++) {
        $most = max($most, passing(laravels(...), $code));
        if ($most > LIMIT) {
            echo "Laravel's limiter of ", LIMIT, " let $most of ", PARALLEL, " pass\n";
            return;
        }
    }
    throw new Exception('the race was not met in ten rounds');
}

function no_race(callable $code): void
{
    for ($round = 0; $round < 2; $round++) {
        same(LIMIT, passing(ours(...), $code));
    }
}

$tests = [
    "laravel's own: tooManyAttempts and hit race" => fn () => race('guarded'),
    'ours: exactly 5 pass tooManyAttempts and hit' => fn () => no_race('guarded'),
    "laravel's own: attempt races" => fn () => race('attempted'),
    'ours: exactly 5 pass attempt' => fn () => no_race('attempted'),
    "laravel's own: the throttle middleware races" => fn () => race('throttled'),
    'ours: exactly 5 pass the throttle middleware' => fn () => no_race('throttled'),
    'the same answers as Laravel, one after the other' => function (): void {
        $key = fresh_key();
        $seen = [];
        foreach ([laravels(), ours()] as $limiter) {
            $lines = [];
            for ($n = 0; $n < 7; $n++) {
                $lines[] = [(int) $limiter->attempts($key), $limiter->remaining($key, LIMIT), $limiter->retriesLeft($key, LIMIT)];
                $lines[] = $limiter->tooManyAttempts($key, LIMIT) ? $limiter->availableIn($key) > 58 : $limiter->hit($key, 60);
            }
            $limiter->clear($key);
            $lines[] = [$limiter->attempts($key), $limiter->availableIn($key), $limiter->hit($key), $limiter->hit($key)];
            $limiter->resetAttempts($key);
            $lines[] = $limiter->attempts($key);
            $lines[] = $limiter->attempt($key, 1, static fn () => 'done');
            $lines[] = $limiter->attempt($key, 1, static fn () => 'done');
            $seen[] = $lines;
        }
        same($seen[0], $seen[1]);
    },
    'headers of the middleware' => function (): void {
        [$limiter, $key] = [ours(), fresh_key()];
        $response = throttle($limiter, $key);
        same(['5', '4'], [$response->headers->get('X-RateLimit-Limit'), $response->headers->get('X-RateLimit-Remaining')]);
        for ($n = 0; $n < 4; $n++) {
            throttle($limiter, $key);
        }
        $refusal = thrown(ThrottleRequestsException::class, static fn () => throttle($limiter, $key));
        same(429, $refusal->getStatusCode());
        same([5, 0, 60], [$refusal->getHeaders()['X-RateLimit-Limit'], $refusal->getHeaders()['X-RateLimit-Remaining'],
            $refusal->getHeaders()['Retry-After']]);
    },
    'the loser of a race is told when to come back' => function (): void {
        [$limiter, $other, $key] = [ours(), ours(), fresh_key()];
        same(false, $limiter->tooManyAttempts($key, 1));
        same(1, $other->hit($key, 60));
        $refusal = thrown(ThrottleRequestsException::class, static fn () => $limiter->hit($key, 60));
        same('You have sent too many requests. Please try again in 60 seconds.', $refusal->getMessage());
        ['Retry-After' => $wait, 'X-RateLimit-Remaining' => $remaining, 'X-RateLimit-Reset' => $reset] = $refusal->getHeaders();
        same([60, 0], [$wait, $remaining]);
        same(true, abs($reset - time() - 60) <= 1);
    },
    'named limiters, and registered by extend' => function (): void {
        $app = new Container();
        $app->extend(RateLimiter::class, static fn () => ours());
        $app->singleton(RateLimiter::class, static fn () => laravels()); // Laravel's provider comes later
        $limiter = $app->make(RateLimiter::class);
        same(AtomicRateLimiter::class, get_class($limiter));
        $key = fresh_key();
        $limiter->for('uploads', static fn () => Limit::perMinute(1)->by($key));
        same(200, throttle($limiter, '', 'uploads')->getStatusCode());
        thrown(ThrottleRequestsException::class, static fn () => throttle($limiter, '', 'uploads'));
    },
    'several at a time, and given back' => function (): void {
        [$limiter, $key] = [ours(), fresh_key()];
        same(3, $limiter->increment($key, 60, 3));
        same(1, $limiter->decrement($key, 60, 2));
    },
    'a limit of 0 lets nobody pass' => function (): void {
        same(true, ours()->tooManyAttempts(fresh_key(), 0));
        same(false, ours()->attempt(fresh_key(), 0, static fn () => true));
    },
    'down and silent' => function (): void {
        foreach (['RL_DOWN_PORT', 'RL_SILENT_PORT', 'RL_REPLICA_PORT'] as $port) {
            $open = ours($port, AtomicRateLimiter::OPEN, 0.2);
            same([false, 0, 'done'], [$open->tooManyAttempts('x', 5), $open->hit('x'), $open->attempt('x', 5, fn () => 'done')]);
            $closed = ours($port, AtomicRateLimiter::CLOSED, 0.2);
            $refusal = thrown(ServiceUnavailableHttpException::class, static fn () => $closed->hit('x'));
            same([503, 5], [$refusal->getStatusCode(), $refusal->getHeaders()['Retry-After']]);
        }
    },
    'a key of another type is an error' => function (): void {
        redis()->connection()->set('throttle:list', 'x');
        thrown(Exception::class, static fn () => ours('RL_PORT', AtomicRateLimiter::OPEN)->hit('list'));
    },
    'cluster' => function (): void {
        $limiter = ours('RL_CLUSTER_PORT');
        for ($n = 0; $n < 20; $n++) { // their slots lie on all nodes
            $key = fresh_key();
            same([true, true, false], [$limiter->attempt($key, 2, fn () => true), $limiter->attempt($key, 2, fn () => true),
                $limiter->attempt($key, 2, fn () => true)]);
            same(2, $limiter->attempts($key));
        }
    },
];

$failed = 0;
foreach ($tests as $name => $test) {
    try {
        $test();
        echo "ok $name\n";
    } catch (Throwable $error) {
        $failed = 1;
        echo "$error\nFAILED $name\n";
    }
}
$version = trim((string) shell_exec("dpkg-query -W -f '\${source:Upstream-Version}' php-illuminate-cache 2>/dev/null"));
echo "client Laravel $version\n";
exit($failed);
