<?php

declare(strict_types=1);

namespace App\RateLimiting;

use Closure;
use Illuminate\Cache\RateLimiter;
use Illuminate\Contracts\Redis\Factory as Redis;
use Illuminate\Http\Exceptions\ThrottleRequestsException;
use Illuminate\Redis\Connections\PhpRedisClusterConnection;
use InvalidArgumentException;
use RedisClusterException;
use RedisException;
use RuntimeException;
use Symfony\Component\HttpKernel\Exception\ServiceUnavailableHttpException;

/**
 * Laravel's rate limiter without its race, for the phpredis driver.
 *
 * Laravel reads the counter in `tooManyAttempts` and raises it in `hit`; between the two every parallel
 * request passes. Here `hit` checks and charges in one RL.WINDOW … FIXED call. When it is refused it
 * throws what the `throttle` middleware throws, and Laravel answers 429. So the code that calls
 * `tooManyAttempts` and then `hit` stays as it is, and `attempt` needs no exception.
 *
 * The limit that `hit` enforces is the one that `tooManyAttempts` named for this key; a key that nobody
 * checked is only counted, as in Laravel.
 */
class AtomicRateLimiter extends RateLimiter
{
    /** Without a verdict: let the request through, or answer 503. */
    public const OPEN = 'open';
    public const CLOSED = 'closed';

    private const NO_LIMIT = 9007199254740991; // the largest amount: 2^53 - 1
    private const NO_VERDICT = '/^(LOADING|CLUSTERDOWN|MASTERDOWN|READONLY|MISCONF|NOREPLICAS|OOM|TRYAGAIN|BUSY) /';

    /** @var array<string, int> the limit last asked for, by key */
    private array $limits = [];

    public function __construct(
        private Redis $redis,
        private string $whenDown,
        private string $prefix = 'throttle:',
        private ?string $connection = null,
    ) {
        if (!in_array($whenDown, [self::OPEN, self::CLOSED], true)) {
            throw new InvalidArgumentException('whenDown is OPEN or CLOSED');
        }
    }

    /** Runs the callback if the limit admits it; the attempt counts before the callback, not after it. */
    public function attempt($key, $maxAttempts, Closure $callback, $decaySeconds = 60)
    {
        $reply = $this->take($key, (int) $maxAttempts, $decaySeconds, 1);

        return $reply !== null && $reply[0] === 0 ? false : ($callback() ?: true);
    }

    public function tooManyAttempts($key, $maxAttempts)
    {
        if (count($this->limits) >= 1000) {
            $this->limits = []; // a process that lives long
        }
        $this->limits[(string) $key] = (int) $maxAttempts;

        return $this->attempts($key) >= $maxAttempts;
    }

    /** @throws ThrottleRequestsException when another request took the last attempt */
    public function hit($key, $decaySeconds = 60)
    {
        return $this->increment($key, $decaySeconds);
    }

    /** What `hit` is called in newer versions of Laravel, where one attempt may count more than once. */
    public function increment($key, $decaySeconds = 60, $amount = 1)
    {
        $limit = $this->limits[(string) $key] ?? self::NO_LIMIT;
        $reply = $this->take($key, $limit, $decaySeconds, (int) $amount);
        if ($reply === null) {
            return 0;
        }
        [$allowed, , $remaining, $retryAfterMs] = $reply;
        if ($allowed === 0) {
            throw $this->refusal($limit, $remaining, $retryAfterMs);
        }

        return $limit - $remaining;
    }

    public function decrement($key, $decaySeconds = 60, $amount = 1)
    {
        $this->call('RL.REFUND', $key, 'WINDOW', $this->window($decaySeconds), self::NO_LIMIT, 'FIXED', 'COST', (int) $amount);

        return $this->attempts($key);
    }

    public function attempts($key)
    {
        return $this->stored($key)['used'] ?? 0;
    }

    public function resetAttempts($key)
    {
        return (bool) $this->call('DEL', $key);
    }

    public function clear($key)
    {
        $this->resetAttempts($key);
    }

    /** Seconds, rounded up. */
    public function availableIn($key)
    {
        $window = $this->stored($key);
        if ($window === null) {
            return 0;
        }
        // The end is told in the server's time. A wrong clock here makes nobody wait longer than the window.
        $waitMs = min($window['until_ms'] - (int) floor(microtime(true) * 1000), $window['length_ms']);

        return self::seconds(max(0, $waitMs));
    }

    /** @return list<int>|null the five integers of the reply; null: no verdict, and open */
    private function take(mixed $key, int $limit, mixed $decaySeconds, int $cost): ?array
    {
        return $this->call('RL.WINDOW', $key, $this->window($decaySeconds), $limit, $cost, 'FIXED');
    }

    private function refusal(int $limit, int $remaining, int $retryAfterMs): ThrottleRequestsException
    {
        $headers = ['X-RateLimit-Limit' => $limit, 'X-RateLimit-Remaining' => $remaining];
        if ($retryAfterMs < 0) {
            return new ThrottleRequestsException(
                "This request exceeds your limit of $limit. Trying again will not help.", null, $headers
            );
        }
        $wait = self::seconds($retryAfterMs);
        // Laravel's reset is a Unix time.
        $headers += ['Retry-After' => $wait, 'X-RateLimit-Reset' => $this->availableAt($wait)];

        return new ThrottleRequestsException(
            "You have sent too many requests. Please try again in $wait second" . ($wait === 1 ? '' : 's') . '.',
            null,
            $headers
        );
    }

    /** The key's fixed window; if it was hit with several decay times, the one with the most attempts. */
    private function stored(mixed $key): ?array
    {
        $most = null;
        foreach ($this->call('RL.INFO', $key) ?: [] as $flat) {
            $limit = [];
            foreach (array_chunk($flat, 2) as [$name, $value]) {
                $limit[$name] = $value;
            }
            if (($limit['mode'] ?? '') === 'fixed' && $limit['used'] > ($most['used'] ?? 0)) {
                $most = $limit;
            }
        }

        return $most;
    }

    /** The reply; null when there is none, or when there is no verdict and that means open. */
    private function call(string $command, mixed $key, string|int ...$arguments): mixed
    {
        $key = $this->prefix . $this->cleanRateLimiterKey((string) $key);
        try {
            $connection = $this->redis->connection($this->connection);
            $client = $connection->client();
            $client->clearLastError();
            $call = [$command, $key, ...$arguments];
            // A cluster client is told the key first, to find the node.
            $reply = $connection->executeRaw(
                $connection instanceof PhpRedisClusterConnection ? [$key, ...$call] : $call
            );
            $error = $reply === false ? $client->getLastError() : null;
        } catch (RedisException | RedisClusterException $exception) {
            $error = $exception->getMessage();
            // A server's error begins with its upper-case name; all others are failed connections.
            if (!preg_match('/^[A-Z]{3,} /', $error) || preg_match(self::NO_VERDICT, $error)) {
                return $this->withoutVerdict($exception);
            }
            throw $exception;
        }
        if ($error === null) {
            return $reply === false ? null : $reply;
        }
        $exception = new RuntimeException($error);

        return preg_match(self::NO_VERDICT, $error) ? $this->withoutVerdict($exception) : throw $exception;
    }

    private function withoutVerdict(\Exception $exception): mixed
    {
        if ($this->whenDown === self::OPEN) {
            return null;
        }
        throw new ServiceUnavailableHttpException(
            5, 'We cannot check your request limit right now. Please try again in a few seconds.', $exception
        );
    }

    /** Laravel also takes a DateInterval or a time as decay; minutes may be fractions. */
    private function window(mixed $decaySeconds): string
    {
        $seconds = is_numeric($decaySeconds) ? (float) $decaySeconds : $this->secondsUntil($decaySeconds);

        return max(16, (int) ceil($seconds * 1000)) . 'ms';
    }

    private static function seconds(int $ms): int
    {
        return intdiv($ms + 999, 1000);
    }
}
