# frozen_string_literal: true

require "redis"

# Rate limiting with ruby-redis 4 (the gem `redis`), for any Rack application.
module Limiter
  # The server cannot decide now. Every other error reply (ERR, WRONGTYPE, NOPERM, ...) is a bug or a
  # wrong set-up and is raised: neither open nor closed would show it.
  NO_VERDICT = %w[
    LOADING CLUSTERDOWN MASTERDOWN READONLY MISCONF NOREPLICAS OOM TRYAGAIN BUSY
  ].freeze

  # retry_after_ms is -1 when this call will never succeed.
  Verdict = Struct.new(:allowed, :limit, :remaining, :retry_after_ms, :reset_after_ms)

  module_function

  # No retries: a call that is sent twice may be charged twice.
  def connect(host: "127.0.0.1", port: 6379, timeout_s: 0.1)
    Redis.new(host: host, port: port, timeout: timeout_s, reconnect_attempts: 0)
  end

  # Raises when no node answers.
  def connect_cluster(host: "127.0.0.1", port: 6379, timeout_s: 0.1)
    Redis.new(cluster: ["redis://#{host}:#{port}"], timeout: timeout_s)
  end

  # check(redis, "RL.BUCKET", "user:42", "50", 200). nil: no verdict.
  def check(redis, *command)
    verdict(redis.call(*command))
  rescue Redis::BaseError => e
    without_verdict(e)
  end

  # Many calls in one round trip. Through a cluster one by one: ruby-redis 4 sends a pipeline to a
  # single node. One call without a verdict leaves all without.
  def check_many(redis, commands)
    return commands.map { |command| check(redis, *command) } if redis._client.is_a?(Redis::Cluster)

    replies = redis.pipelined do |pipeline|
      commands.each { |command| pipeline.call(*command) }
    end
    replies.map { |reply| verdict(reply) }
  rescue Redis::BaseError => e
    commands.map { without_verdict(e) }
  end

  # The HTTP answer: [status, headers, sentence]. 200 means: go on and send the headers along.
  # when_down is :open (let the request through) or :closed (refuse it).
  def answer(verdict, when_down:)
    raise ArgumentError, "when_down is :open or :closed" unless %i[open closed].include?(when_down)
    return unavailable(when_down) if verdict.nil?

    headers = {
      "X-RateLimit-Limit" => verdict.limit.to_s,
      "X-RateLimit-Remaining" => verdict.remaining.to_s,
      "X-RateLimit-Reset" => seconds(verdict.reset_after_ms).to_s
    }
    return [200, headers, ""] if verdict.allowed

    if verdict.retry_after_ms.negative?
      return [429, headers, "This request exceeds your limit of #{verdict.limit}. Trying again will not help."]
    end

    wait = seconds(verdict.retry_after_ms)
    [429, headers.merge("Retry-After" => wait.to_s),
     "You have sent too many requests. Please try again in #{words(wait)}."]
  end

  def unavailable(when_down)
    return [200, {}, ""] if when_down == :open

    [503, { "Retry-After" => "5" },
     "We cannot check your request limit right now. Please try again in a few seconds."]
  end

  def verdict(reply)
    allowed, *numbers = reply.first(5) # RL.TAKE answers more
    Verdict.new(allowed.positive?, *numbers)
  end

  def without_verdict(error)
    return nil if error.is_a?(Redis::BaseConnectionError) || NO_VERDICT.include?(error.message[/\A\w+/])

    raise error
  end

  # Rounded up: who comes back early is refused again.
  def seconds(milliseconds)
    -(-milliseconds).div(1000)
  end

  def words(wait)
    size, unit = { 86_400 => "day", 3600 => "hour", 60 => "minute", 1 => "second" }
                 .find { |length, _| wait >= 2 * length || length == 1 }
    count = -(-wait).div(size)
    "#{count} #{unit}#{"s" unless count == 1}"
  end
end
