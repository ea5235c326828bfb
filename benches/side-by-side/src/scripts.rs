//! Limiters as people write them in Lua, called by EVALSHA.

/// GCRA, one string a key: `KEYS[1]`, burst, units, period in seconds, cost. The usual script, as in
/// go-redis/redis_rate: floats, the server's time, `SET … EX`.
pub const GCRA: &str = r#"
redis.replicate_commands()
local rate_limit_key = KEYS[1]
local burst = ARGV[1]
local rate = ARGV[2]
local period = ARGV[3]
local cost = tonumber(ARGV[4])
local emission_interval = period / rate
local increment = emission_interval * cost
local burst_offset = emission_interval * burst
local jan_1_2017 = 1483228800
local now = redis.call("TIME")
now = (now[1] - jan_1_2017) + (now[2] / 1000000)
local tat = redis.call("GET", rate_limit_key)
if not tat then
  tat = now
else
  tat = tonumber(tat)
end
tat = math.max(tat, now)
local new_tat = tat + increment
local allow_at = new_tat - burst_offset
local diff = now - allow_at
local remaining = diff / emission_interval
if remaining < 0 then
  local reset_after = tat - now
  local retry_after = diff * -1
  return {0, 0, tostring(retry_after), tostring(reset_after)}
end
local reset_after = new_tat - now
if reset_after > 0 then
  redis.call("SET", rate_limit_key, new_tat, "EX", math.ceil(reset_after))
end
return {cost, remaining, tostring(-1), tostring(reset_after)}
"#;

/// Token bucket, a hash of tokens and time: `KEYS[1]`, rate a second, capacity, cost.
pub const TOKEN_BUCKET: &str = r#"
local key = KEYS[1]
local rate = tonumber(ARGV[1])
local capacity = tonumber(ARGV[2])
local requested = tonumber(ARGV[3])
local time = redis.call("TIME")
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local bucket = redis.call("HMGET", key, "tokens", "timestamp")
local tokens = tonumber(bucket[1]) or capacity
local last = tonumber(bucket[2]) or now
local filled = math.min(capacity, tokens + math.max(0, now - last) * rate)
local allowed = filled >= requested
if allowed then
  filled = filled - requested
end
redis.call("HSET", key, "tokens", filled, "timestamp", now)
redis.call("EXPIRE", key, math.ceil(capacity / rate * 2))
return { allowed and 1 or 0, math.floor(filled) }
"#;

/// Sliding log, a sorted set of admissions: `KEYS[1]`, window in microseconds, limit.
pub const SLIDING_LOG: &str = r#"
local key = KEYS[1]
local window = tonumber(ARGV[1])
local limit = tonumber(ARGV[2])
local time = redis.call("TIME")
local now = time[1] * 1000000 + time[2]
redis.call("ZREMRANGEBYSCORE", key, 0, now - window)
local count = redis.call("ZCARD", key)
if count < limit then
  redis.call("ZADD", key, now, now .. "-" .. count)
  redis.call("PEXPIRE", key, math.ceil(window / 1000))
  return {1, limit - count - 1}
end
return {0, 0}
"#;

/// What stands for each `$NAME` in a case.
pub type Names = Vec<(&'static str, String)>;

/// All scripts with their names in a case.
pub const ALL: [(&str, &str); 3] = [("GCRA", GCRA), ("BUCKET", TOKEN_BUCKET), ("LOG", SLIDING_LOG)];
