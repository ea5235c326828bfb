<?php

// Run by scripts/test-clients; prints a line for each test.

declare(strict_types=1);

use RedisLimiter\Limiter;
use RedisLimiter\Verdict;
use RedisLimiter\WhenDown;

require __DIR__ . '/Limiter.php';

set_error_handler(static function (int $level, string $text, string $file, int $line): bool {
    throw new \ErrorException($text, 0, $level, $file, $line);
});

$run = bin2hex(random_bytes(8));
$bucket = static fn (string|int $subject, int $cost = 1) => ['RL.BUCKET', "$run:$subject", '1/1h', 5, $cost];
$port = static fn (string $name) => (int) getenv($name);
$limiter = Limiter::connect(port: $port('RL_PORT'), timeoutS: 5);
$allowed = static fn (array $verdicts) => array_map(static fn (Verdict $verdict) => $verdict->allowed, $verdicts);

function same(mixed $expected, mixed $found): void
{
    if ($expected !== $found) {
        throw new \Exception('expected ' . json_encode($expected) . ', found ' . json_encode($found));
    }
}

function throws(\Closure $call): void
{
    try {
        $call();
    } catch (\RedisException | \RuntimeException) {
        return;
    }
    throw new \Exception('nothing was thrown');
}

$tests = [
    'allowed' => function () use ($limiter, $bucket): void {
        [$status, $headers] = Limiter::answer($limiter->check(...$bucket('allowed')), WhenDown::Open);
        same(200, $status);
        same(['X-RateLimit-Limit' => '5', 'X-RateLimit-Remaining' => '4', 'X-RateLimit-Reset' => '3600'], $headers);
    },
    'refused' => function () use ($limiter, $bucket, $allowed): void {
        $verdicts = array_map(static fn () => $limiter->check(...$bucket('refused')), range(1, 6));
        same([true, true, true, true, true, false], $allowed($verdicts));
        [$status, $headers, $sentence] = Limiter::answer($verdicts[5], WhenDown::Open);
        same([429, '0', '3600'], [$status, $headers['X-RateLimit-Remaining'], $headers['Retry-After']]);
        same('You have sent too many requests. Please try again in 60 minutes.', $sentence);
    },
    'never' => function () use ($limiter, $bucket): void {
        [$status, $headers, $sentence] = Limiter::answer($limiter->check(...$bucket('never', 6)), WhenDown::Open);
        same([429, false], [$status, isset($headers['Retry-After'])]);
        same('This request exceeds your limit of 5. Trying again will not help.', $sentence);
    },
    'rounding' => function (): void {
        $cases = [[1, '1', '1 second'], [1000, '1', '1 second'], [1250, '2', '2 seconds'],
            [119001, '120', '2 minutes'], [172800000, '172800', '2 days']];
        foreach ($cases as [$ms, $seconds, $words]) {
            [, $headers, $sentence] = Limiter::answer(new Verdict(false, 5, 0, $ms, $ms), WhenDown::Open);
            same([$seconds, $seconds], [$headers['Retry-After'], $headers['X-RateLimit-Reset']]);
            same(true, str_ends_with($sentence, " $words."));
        }
    },
    'layers' => function () use ($limiter, $run): void {
        $take = ['RL.TAKE', "$run:layers", 'COST', 5, 'BUCKET', '50', 200, 'QUOTA', 'day', 7];
        [$first, $second] = [$limiter->check(...$take), $limiter->check(...$take)];
        same([true, 7, 2], [$first->allowed, $first->limit, $first->remaining]);
        same([false, true], [$second->allowed, $second->retryAfterMs > 0 && $second->retryAfterMs <= 86400000]);
    },
    'pipelined' => function () use ($limiter, $bucket, $allowed): void {
        $verdicts = $limiter->checkMany([...array_fill(0, 8, $bucket('pipelined')), $bucket('another')]);
        same([true, true, true, true, true, false, false, false, true], $allowed($verdicts));
    },
    'down and silent' => function () use ($port, $bucket): void {
        foreach (['RL_DOWN_PORT', 'RL_SILENT_PORT'] as $name) {
            $other = Limiter::connect(port: $port($name));
            $started = microtime(true);
            same(null, $other->check(...$bucket('x')));
            same([null, null], $other->checkMany([$bucket('x'), $bucket('x')]));
            same(true, microtime(true) - $started < 3);
        }
        same([200, [], ''], Limiter::answer(null, WhenDown::Open));
        [$status, $headers, $sentence] = Limiter::answer(null, WhenDown::Closed);
        same([503, ['Retry-After' => '5'], true], [$status, $headers, str_contains($sentence, 'try again')]);
    },
    'no verdict errors' => function () use ($port, $bucket): void {
        $replica = Limiter::connect(port: $port('RL_REPLICA_PORT'), timeoutS: 5);
        same(null, $replica->check(...$bucket('x'))); // READONLY
        same([null], $replica->checkMany([$bucket('x')]));
    },
    'wrong call is thrown' => function () use ($limiter): void {
        throws(static fn () => $limiter->check('RL.BUCKET', 'x', 'fast', 5));
        throws(static fn () => $limiter->checkMany([['RL.BUCKET', 'x', 'fast', 5]]));
    },
    'cluster' => function () use ($port, $bucket, $allowed, $run): void {
        $cluster = Limiter::connectCluster(port: $port('RL_CLUSTER_PORT'), timeoutS: 5);
        foreach (range(1, 20) as $n) { // their slots lie on all nodes
            same([true, false], $allowed([$cluster->check(...$bucket($n, 3)), $cluster->check(...$bucket($n, 3))]));
        }
        $twice = array_map(static fn (int $n) => $bucket($n % 20 + 1, 2), range(0, 39));
        same([...array_fill(0, 20, true), ...array_fill(0, 20, false)], $allowed($cluster->checkMany($twice)));
        $several = ['RL.MTAKE', 'KEY', "{{$run}}:1", 'BUCKET', '1', 5, 'KEY', "{{$run}}", 'QUOTA', 'day', 1];
        same([true, false], $allowed([$cluster->check(...$several), $cluster->check(...$several)]));
    },
];

$failed = 0;
foreach ($tests as $name => $test) {
    try {
        $test();
        echo "ok $name\n";
    } catch (\Throwable $error) {
        $failed = 1;
        echo "$error\nFAILED $name\n";
    }
}
echo 'client phpredis ', phpversion('redis'), ', PHP ', PHP_VERSION, "\n";
exit($failed);
