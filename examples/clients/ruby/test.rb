# frozen_string_literal: true

# Run by scripts/test-clients; prints a line for each test.

require "securerandom"
require_relative "limiter"

RUN = SecureRandom.hex(8)
CLIENT = Limiter.connect(port: Integer(ENV.fetch("RL_PORT")), timeout_s: 5)

def bucket(subject, cost = 1)
  ["RL.BUCKET", "#{RUN}:#{subject}", "1/1h", 5, cost]
end

def same(expected, found)
  raise "expected #{expected.inspect}, found #{found.inspect}" unless expected == found
end

def raises(error)
  yield
rescue error
  nil
else
  raise "nothing was raised"
end

TESTS = {
  "allowed" => lambda {
    status, headers, = Limiter.answer(Limiter.check(CLIENT, *bucket("allowed")), when_down: :open)
    same 200, status
    same({ "X-RateLimit-Limit" => "5", "X-RateLimit-Remaining" => "4", "X-RateLimit-Reset" => "3600" }, headers)
  },
  "refused" => lambda {
    verdicts = Array.new(6) { Limiter.check(CLIENT, *bucket("refused")) }
    same [true] * 5 + [false], verdicts.map(&:allowed)
    status, headers, sentence = Limiter.answer(verdicts.last, when_down: :open)
    same [429, "0", "3600"], [status, headers["X-RateLimit-Remaining"], headers["Retry-After"]]
    same "You have sent too many requests. Please try again in 60 minutes.", sentence
  },
  "never" => lambda {
    status, headers, sentence = Limiter.answer(Limiter.check(CLIENT, *bucket("never", 6)), when_down: :open)
    same [429, false], [status, headers.key?("Retry-After")]
    same "This request exceeds your limit of 5. Trying again will not help.", sentence
  },
  "rounding" => lambda {
    [[1, "1", "1 second"], [1000, "1", "1 second"], [1250, "2", "2 seconds"],
     [119_001, "120", "2 minutes"], [172_800_000, "172800", "2 days"]].each do |ms, seconds, words|
      _, headers, sentence = Limiter.answer(Limiter::Verdict.new(false, 5, 0, ms, ms), when_down: :open)
      same [seconds, seconds], headers.values_at("Retry-After", "X-RateLimit-Reset")
      same true, sentence.end_with?(" #{words}.")
    end
  },
  "layers" => lambda {
    take = ["RL.TAKE", "#{RUN}:layers", "COST", 5, "BUCKET", "50", 200, "QUOTA", "day", 7]
    first, second = Array.new(2) { Limiter.check(CLIENT, *take) }
    same [true, 7, 2], [first.allowed, first.limit, first.remaining]
    same [false, true], [second.allowed, second.retry_after_ms.between?(1, 86_400_000)]
  },
  "pipelined" => lambda {
    verdicts = Limiter.check_many(CLIENT, [bucket("pipelined")] * 8 + [bucket("another")])
    same [true] * 5 + [false] * 3 + [true], verdicts.map(&:allowed)
  },
  "down and silent" => lambda {
    %w[RL_DOWN_PORT RL_SILENT_PORT].each do |name|
      client = Limiter.connect(port: Integer(ENV.fetch(name)))
      started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      same nil, Limiter.check(client, *bucket("x"))
      same [nil, nil], Limiter.check_many(client, [bucket("x")] * 2)
      same true, Process.clock_gettime(Process::CLOCK_MONOTONIC) - started < 3
    end
    same [200, {}, ""], Limiter.answer(nil, when_down: :open)
    status, headers, sentence = Limiter.answer(nil, when_down: :closed)
    same [503, { "Retry-After" => "5" }, true], [status, headers, sentence.include?("try again")]
  },
  "no verdict errors" => lambda {
    client = Limiter.connect(port: Integer(ENV.fetch("RL_REPLICA_PORT")), timeout_s: 5)
    same nil, Limiter.check(client, *bucket("x")) # READONLY
    same [nil], Limiter.check_many(client, [bucket("x")])
  },
  "wrong call is raised" => lambda {
    wrong = ["RL.BUCKET", "x", "fast", 5]
    raises(Redis::CommandError) { Limiter.check(CLIENT, *wrong) }
    raises(Redis::CommandError) { Limiter.check_many(CLIENT, [wrong]) }
  },
  "cluster" => lambda {
    client = Limiter.connect_cluster(port: Integer(ENV.fetch("RL_CLUSTER_PORT")), timeout_s: 5)
    20.times do |n| # their slots lie on all nodes
      same [true, false], Array.new(2) { Limiter.check(client, *bucket(n, 3)).allowed }
    end
    verdicts = Limiter.check_many(client, Array.new(40) { |n| bucket(n % 20, 2) })
    same [true] * 20 + [false] * 20, verdicts.map(&:allowed)
  }
}.freeze

failed = false
TESTS.each do |name, test|
  test.call
  puts "ok #{name}"
rescue StandardError => e
  failed = true
  puts e.full_message(highlight: false), "FAILED #{name}"
end
puts "client ruby-redis #{Redis::VERSION}"
exit !failed
