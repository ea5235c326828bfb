'use strict';
// Rate limiting with node-redis (4 and newer), for any web framework.

const { createClient, createCluster, ErrorReply } = require('redis');

const OPEN = 'open'; // without a verdict: let the request through
const CLOSED = 'closed'; // … or refuse it

// The server cannot decide now. Every other error reply (ERR, WRONGTYPE, NOPERM, …) is a bug or a
// wrong set-up and is thrown: neither open nor closed would show it.
const NO_VERDICT = new Set([
  'LOADING', 'CLUSTERDOWN', 'MASTERDOWN', 'READONLY', 'MISCONF', 'NOREPLICAS', 'OOM', 'TRYAGAIN', 'BUSY',
]);

// Resolves after `timeoutMs` at the latest; an unreachable server is tried again in the background.
async function connect({ host = '127.0.0.1', port = 6379, timeoutMs = 100 } = {}) {
  return started(createClient({
    socket: { host, port, connectTimeout: timeoutMs },
    disableOfflineQueue: true, // without a connection: an error at once, no waiting
    commandsQueueMaxLength: 10000,
  }), timeoutMs);
}

// Rejects when no node answers.
async function connectCluster({ host = '127.0.0.1', port = 6379, timeoutMs = 100 } = {}) {
  return started(createCluster({
    rootNodes: [{ socket: { host, port } }],
    defaults: { socket: { connectTimeout: timeoutMs } },
  }), timeoutMs);
}

async function started(client, timeoutMs) {
  client.on('error', () => {}); // log here; without a listener the process would end
  const connecting = client.connect();
  connecting.catch(() => {});
  await within(timeoutMs, connecting).catch((error) => {
    if (!('isReady' in client)) throw error; // a cluster that never was
  });
  client.limiterTimeoutMs = timeoutMs;
  return client;
}

// check(client, ['RL.BUCKET', 'user:42', '50', 200]) → a verdict, or null: no verdict.
async function check(client, command) {
  const args = command.map(String);
  const sent = 'isReady' in client
    ? client.sendCommand(args)
    : client.sendCommand(firstKey(args), false, args);
  try {
    return verdictOf(await within(client.limiterTimeoutMs, sent));
  } catch (error) {
    if (error instanceof TypeError) throw error;
    if (error instanceof ErrorReply && !NO_VERDICT.has(error.message.split(' ', 1)[0])) throw error;
    return null;
  }
}

// What is sent in one turn of the event loop leaves in one write: that is node-redis' pipeline.
function checkMany(client, commands) {
  return Promise.all(commands.map((command) => check(client, command)));
}

// The HTTP answer. Status 200 means: go on and send the headers along.
function answer(verdict, whenDown) {
  if (whenDown !== OPEN && whenDown !== CLOSED) throw new TypeError('whenDown is OPEN or CLOSED');
  if (verdict === null) {
    if (whenDown === OPEN) return { status: 200, headers: {}, sentence: '' };
    const sentence = 'We cannot check your request limit right now. Please try again in a few seconds.';
    return { status: 503, headers: { 'Retry-After': '5' }, sentence };
  }
  const headers = {
    'X-RateLimit-Limit': String(verdict.limit),
    'X-RateLimit-Remaining': String(verdict.remaining),
    'X-RateLimit-Reset': String(seconds(verdict.resetAfterMs)),
  };
  if (verdict.allowed) return { status: 200, headers, sentence: '' };
  if (verdict.retryAfterMs < 0) {
    const sentence = `This request exceeds your limit of ${verdict.limit}. Trying again will not help.`;
    return { status: 429, headers, sentence };
  }
  const wait = seconds(verdict.retryAfterMs);
  headers['Retry-After'] = String(wait);
  const sentence = `You have sent too many requests. Please try again in ${words(wait)}.`;
  return { status: 429, headers, sentence };
}

function verdictOf([allowed, limit, remaining, retryAfterMs, resetAfterMs]) { // RL.TAKE answers more
  return { allowed: allowed > 0, limit, remaining, retryAfterMs, resetAfterMs };
}

// A cluster client needs the key to find the node: RL.MTAKE and its kin name it after KEY.
function firstKey(args) {
  return args[0].toUpperCase().startsWith('RL.M')
    ? args[args.findIndex((arg) => arg.toUpperCase() === 'KEY') + 1]
    : args[1];
}

// node-redis 4 has no timeout for a command.
function within(ms, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// Rounded up: who comes back early is refused again.
function seconds(ms) {
  return Math.ceil(ms / 1000);
}

function words(wait) {
  const [size, unit] = [[86400, 'day'], [3600, 'hour'], [60, 'minute'], [1, 'second']]
    .find(([length]) => wait >= 2 * length || length === 1);
  const count = Math.ceil(wait / size);
  return `${count} ${unit}${count === 1 ? '' : 's'}`;
}

module.exports = { OPEN, CLOSED, connect, connectCluster, check, checkMany, answer };
