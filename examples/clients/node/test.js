'use strict';
// Run by scripts/test-clients; prints a line for each test.

const assert = require('assert/strict');
const { randomUUID } = require('crypto');
const { OPEN, CLOSED, connect, connectCluster, check, checkMany, answer } = require('./limiter.js');

const port = (name) => Number(process.env[name]);
const run = randomUUID();
const bucket = (subject, cost = 1) => ['RL.BUCKET', `${run}:${subject}`, '1/1h', 5, cost];
const allowed = (verdicts) => verdicts.map((verdict) => verdict.allowed);
const times = (n, make) => Array.from({ length: n }, (_, i) => make(i));
let client;

const tests = {
  async allowed() {
    const { status, headers } = answer(await check(client, bucket('allowed')), OPEN);
    assert.equal(status, 200);
    assert.deepEqual(headers, {
      'X-RateLimit-Limit': '5', 'X-RateLimit-Remaining': '4', 'X-RateLimit-Reset': '3600',
    });
  },
  async refused() {
    const verdicts = [];
    for (let n = 0; n < 6; n++) verdicts.push(await check(client, bucket('refused')));
    assert.deepEqual(allowed(verdicts), [true, true, true, true, true, false]);
    const { status, headers, sentence } = answer(verdicts[5], OPEN);
    assert.equal(status, 429);
    assert.equal(headers['X-RateLimit-Remaining'], '0');
    assert.equal(headers['Retry-After'], '3600');
    assert.equal(sentence, 'You have sent too many requests. Please try again in 60 minutes.');
  },
  async never() {
    const { status, headers, sentence } = answer(await check(client, bucket('never', 6)), OPEN);
    assert.equal(status, 429);
    assert.ok(!('Retry-After' in headers));
    assert.equal(sentence, 'This request exceeds your limit of 5. Trying again will not help.');
  },
  async rounding() {
    for (const [ms, seconds, words] of [[1, '1', '1 second'], [1000, '1', '1 second'],
      [1250, '2', '2 seconds'], [119001, '120', '2 minutes'], [172800000, '172800', '2 days']]) {
      const refusal = { allowed: false, limit: 5, remaining: 0, retryAfterMs: ms, resetAfterMs: ms };
      const { headers, sentence } = answer(refusal, OPEN);
      assert.equal(headers['Retry-After'], seconds);
      assert.equal(headers['X-RateLimit-Reset'], seconds);
      assert.ok(sentence.endsWith(` ${words}.`), sentence);
    }
  },
  async layers() {
    const take = ['RL.TAKE', `${run}:layers`, 'COST', 5, 'BUCKET', '50', 200, 'QUOTA', 'day', 7];
    const [first, second] = [await check(client, take), await check(client, take)];
    assert.ok(first.allowed);
    assert.deepEqual([first.limit, first.remaining], [7, 2]);
    assert.ok(!second.allowed && second.retryAfterMs > 0 && second.retryAfterMs <= 86400000);
  },
  async pipelined() {
    const verdicts = await checkMany(client, [...times(8, () => bucket('pipelined')), bucket('another')]);
    assert.deepEqual(allowed(verdicts), [true, true, true, true, true, false, false, false, true]);
  },
  async 'down and silent'() {
    for (const name of ['RL_DOWN_PORT', 'RL_SILENT_PORT']) {
      const started = Date.now();
      const other = await connect({ port: port(name) });
      assert.equal(await check(other, bucket('x')), null);
      assert.deepEqual(await checkMany(other, [bucket('x'), bucket('x')]), [null, null]);
      assert.ok(Date.now() - started < 3000);
      await other.disconnect().catch(() => {});
    }
    assert.deepEqual(answer(null, OPEN), { status: 200, headers: {}, sentence: '' });
    const { status, headers, sentence } = answer(null, CLOSED);
    assert.equal(status, 503);
    assert.deepEqual(headers, { 'Retry-After': '5' });
    assert.match(sentence, /try again/);
  },
  async 'no verdict errors'() {
    const replica = await connect({ port: port('RL_REPLICA_PORT'), timeoutMs: 5000 });
    assert.equal(await check(replica, bucket('x')), null); // READONLY
    assert.deepEqual(await checkMany(replica, [bucket('x')]), [null]);
    await replica.disconnect();
  },
  async 'wrong call is thrown'() {
    const wrong = ['RL.BUCKET', 'x', 'fast', 5];
    await assert.rejects(check(client, wrong), /^Error: ERR /);
    await assert.rejects(checkMany(client, [wrong]), /^Error: ERR /);
  },
  async cluster() {
    const cluster = await connectCluster({ port: port('RL_CLUSTER_PORT'), timeoutMs: 5000 });
    for (let n = 0; n < 20; n++) { // their slots lie on all nodes
      const verdicts = [await check(cluster, bucket(n, 3)), await check(cluster, bucket(n, 3))];
      assert.deepEqual(allowed(verdicts), [true, false]);
    }
    const verdicts = await checkMany(cluster, times(40, (n) => bucket(n % 20, 2)));
    assert.deepEqual(allowed(verdicts), times(40, (n) => n < 20));
    const several = ['RL.MTAKE', 'KEY', `{${run}}:1`, 'BUCKET', '1', 5, 'KEY', `{${run}}`, 'QUOTA', 'day', 1];
    assert.deepEqual(allowed([await check(cluster, several), await check(cluster, several)]), [true, false]);
    await cluster.disconnect();
  },
};

(async () => {
  let failed = 0;
  client = await connect({ port: port('RL_PORT'), timeoutMs: 5000 });
  for (const [name, test] of Object.entries(tests)) {
    try {
      await test();
      console.log(`ok ${name}`);
    } catch (error) {
      failed = 1;
      console.log(error);
      console.log(`FAILED ${name}`);
    }
  }
  console.log(`client node-redis ${require('redis/package.json').version}, node ${process.versions.node}`);
  await client.disconnect();
  process.exit(failed);
})();
