<?php

declare(strict_types=1);

namespace RedisLimiter;

/** The answer to one call. */
final class Verdict
{
    public function __construct(
        public readonly bool $allowed,
        public readonly int $limit,
        public readonly int $remaining,
        /** -1: this call will never succeed. */
        public readonly int $retryAfterMs,
        public readonly int $resetAfterMs,
    ) {
    }
}

/** Without a verdict: let the request through, or refuse it. */
enum WhenDown
{
    case Open;
    case Closed;
}

/** Rate limiting with phpredis (5.3 and newer; PHP 8.1), for any framework. */
final class Limiter
{
    /**
     * The server cannot decide now. Every other error (ERR, WRONGTYPE, NOPERM, …) is a bug or a wrong
     * set-up and is thrown: neither open nor closed would show it.
     */
    private const NO_VERDICT = [
        'LOADING', 'CLUSTERDOWN', 'MASTERDOWN', 'READONLY', 'MISCONF', 'NOREPLICAS', 'OOM', 'TRYAGAIN', 'BUSY',
    ];
    private const SERVER_ERROR = '/^(?:Error: )?([A-Z]{3,}) /';

    /** @param \Closure(): (\Redis|\RedisCluster) $connect called once, at the first check */
    public function __construct(private readonly \Closure $connect)
    {
    }

    public static function connect(string $host = '127.0.0.1', int $port = 6379, float $timeoutS = 0.1): self
    {
        return new self(static function () use ($host, $port, $timeoutS) {
            $redis = new \Redis();
            $redis->connect($host, $port, $timeoutS, null, 0, $timeoutS);
            // A call that is sent twice may be charged twice.
            $redis->setOption(\Redis::OPT_MAX_RETRIES, 0);
            return $redis;
        });
    }

    public static function connectCluster(string $host = '127.0.0.1', int $port = 6379, float $timeoutS = 0.1): self
    {
        return new self(static fn () => new \RedisCluster(null, ["$host:$port"], $timeoutS, $timeoutS));
    }

    private \Redis|\RedisCluster|null $redis = null;

    private function redis(): \Redis|\RedisCluster
    {
        return $this->redis ??= ($this->connect)();
    }

    /** check('RL.BUCKET', 'user:42', '50', 200). null: no verdict. */
    public function check(string $command, string|int ...$arguments): ?Verdict
    {
        try {
            $redis = $this->redis();
            $redis->clearLastError();
            $reply = $redis instanceof \RedisCluster
                ? $redis->rawCommand(self::firstKey($command, $arguments), $command, ...$arguments)
                : $redis->rawCommand($command, ...$arguments);
            return self::verdict($reply, $redis->getLastError());
        } catch (\RedisException | \RedisClusterException $error) {
            return $this->withoutVerdict($error);
        }
    }

    /**
     * Many calls in one round trip. Through a cluster one by one: phpredis has no pipeline there.
     *
     * @param list<list<string|int>> $commands
     * @return list<?Verdict>
     */
    public function checkMany(array $commands): array
    {
        try {
            $redis = $this->redis();
            if ($redis instanceof \RedisCluster) {
                return array_map(fn (array $command) => $this->check(...$command), $commands);
            }
            $redis->clearLastError();
            $pipeline = $redis->pipeline();
            foreach ($commands as $command) {
                $pipeline->rawCommand(...$command);
            }
            $replies = $pipeline->exec();
            // phpredis keeps the text of the last error only: all failed calls are judged by it.
            $error = $redis->getLastError();
            return array_map(static fn ($reply) => self::verdict($reply, $error), $replies);
        } catch (\RedisException $error) {
            return array_map(fn () => $this->withoutVerdict($error), $commands);
        }
    }

    /**
     * The HTTP answer. 200 means: go on and send the headers along.
     *
     * @return array{int, array<string, string>, string} status, headers, sentence
     */
    public static function answer(?Verdict $verdict, WhenDown $whenDown): array
    {
        if ($verdict === null) {
            return $whenDown === WhenDown::Open ? [200, [], ''] : [503, ['Retry-After' => '5'],
                'We cannot check your request limit right now. Please try again in a few seconds.'];
        }
        $headers = [
            'X-RateLimit-Limit' => (string) $verdict->limit,
            'X-RateLimit-Remaining' => (string) $verdict->remaining,
            'X-RateLimit-Reset' => (string) self::seconds($verdict->resetAfterMs),
        ];
        if ($verdict->allowed) {
            return [200, $headers, ''];
        }
        if ($verdict->retryAfterMs < 0) {
            return [429, $headers,
                "This request exceeds your limit of $verdict->limit. Trying again will not help."];
        }
        $wait = self::seconds($verdict->retryAfterMs);
        return [429, $headers + ['Retry-After' => (string) $wait],
            'You have sent too many requests. Please try again in ' . self::words($wait) . '.'];
    }

    private static function verdict(mixed $reply, ?string $error): ?Verdict
    {
        if (is_array($reply)) {
            return new Verdict($reply[0] > 0, ...array_slice($reply, 1, 4)); // RL.TAKE answers more
        }
        if (in_array(self::firstWord((string) $error), self::NO_VERDICT, true)) {
            return null;
        }
        throw new \RuntimeException($error ?? 'no array was answered');
    }

    private function withoutVerdict(\Exception $error): ?Verdict
    {
        $word = self::firstWord($error->getMessage());
        if ($word === '') {
            $this->redis = null; // the connection is of no use any more: the next check makes a new one
        }
        // No server error's first word: the connection failed.
        if ($word === '' || in_array($word, self::NO_VERDICT, true)) {
            return null;
        }
        throw $error;
    }

    private static function firstWord(string $error): string
    {
        return preg_match(self::SERVER_ERROR, $error . ' ', $found) === 1 ? $found[1] : '';
    }

    /** A cluster client needs the key to find the node: RL.MTAKE and its kin name it after KEY. */
    private static function firstKey(string $command, array $arguments): string
    {
        if (!str_starts_with(strtoupper($command), 'RL.M')) {
            return (string) $arguments[0];
        }
        $words = array_map(static fn ($argument) => strtoupper((string) $argument), $arguments);
        return (string) $arguments[array_search('KEY', $words, true) + 1];
    }

    /** Rounded up: who comes back early is refused again. */
    private static function seconds(int $ms): int
    {
        return intdiv($ms, 1000) + ($ms % 1000 > 0 ? 1 : 0);
    }

    private static function words(int $wait): string
    {
        foreach ([86400 => 'day', 3600 => 'hour', 60 => 'minute'] as $size => $unit) {
            if ($wait >= 2 * $size) {
                return intdiv($wait + $size - 1, $size) . " {$unit}s";
            }
        }
        return $wait === 1 ? '1 second' : "$wait seconds";
    }
}
