//! A real cluster on loopback, and a client that follows its redirections.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support::*;
use redis::{Connection, ConnectionAddr, ConnectionLike as _, IntoConnectionInfo as _, Value};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

/// Three masters, each with a replica.
#[derive(Debug)]
pub struct Cluster {
    pub masters: Vec<Server>,
    pub replicas: Vec<Server>,
}

/// The last slot of each master.
const LAST: [u16; 3] = [5460, 10922, 16383];

/// CRC16 (XMODEM) of a key or its hash tag, modulo the number of slots.
pub fn slot(key: &[u8]) -> u16 {
    let tag = || {
        let open = key.iter().position(|&b| b == b'{')?;
        let length = key[open + 1..].iter().position(|&b| b == b'}').filter(|&n| n > 0)?;
        Some(&key[open + 1..open + 1 + length])
    };
    let mut crc = 0_u16;
    for &byte in tag().unwrap_or(key) {
        crc ^= u16::from(byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        }
    }
    crc % 16384
}

fn node_id(server: &Server) -> String {
    plain(&cmd!(server.connection(), "CLUSTER", "MYID"))
}

fn cluster_info(server: &Server, line: &str) -> bool {
    plain(&cmd!(server.connection(), "CLUSTER", "INFO")).lines().any(|l| l.trim_end() == line)
}

impl Cluster {
    /// Starts the servers and waits until all agree.
    #[track_caller]
    pub fn start() -> Self {
        let node = || {
            Server::builder()
                .config("cluster-enabled yes")
                .config("cluster-node-timeout 1500")
                .config("cluster-replica-validity-factor 0")
                .start()
        };
        let mut nodes: Vec<Server> = (0..6).map(|_| node()).collect();
        for (epoch, node) in nodes.iter().enumerate() {
            let mut con = node.connection();
            cmd!(con, "CLUSTER", "SET-CONFIG-EPOCH", epoch + 1);
            if let Some(&last) = LAST.get(epoch) {
                let first = if epoch == 0 { 0 } else { LAST[epoch - 1] + 1 };
                cmd!(con, "CLUSTER", "ADDSLOTSRANGE", first, last);
            }
            cmd!(con, "CLUSTER", "MEET", "127.0.0.1", nodes[0].port());
        }
        for node in &nodes {
            eventually(SOON, || cluster_info(node, "cluster_known_nodes:6"));
        }
        let replicas = nodes.split_off(3);
        for (replica, master) in replicas.iter().zip(&nodes) {
            let id = node_id(master);
            // The replica may not have heard yet that this node is a master.
            eventually(SOON, || {
                try_cmd!(replica.connection(), "CLUSTER", "REPLICATE", &id).is_ok()
            });
        }
        let cluster = Self { masters: nodes, replicas };
        for (replica, master) in cluster.replicas.iter().zip(&cluster.masters) {
            replica.wait_in_sync(master);
        }
        for node in cluster.masters.iter().chain(&cluster.replicas) {
            eventually(SOON, || cluster_info(node, "cluster_state:ok"));
        }
        cluster
    }

    /// The index of the master that was given a slot at the start.
    pub fn owner(slot: u16) -> usize {
        LAST.iter().position(|&last| slot <= last).unwrap()
    }

    /// A client that starts at any node.
    pub fn client(&self) -> Client {
        let ports = self.masters.iter().chain(&self.replicas).map(Server::port).collect();
        Client { ports, owners: HashMap::new(), connections: HashMap::new(), redirected: 0 }
    }

    /// Moves a slot between two masters as redis-cli does, `keys` at a time.
    #[track_caller]
    pub fn move_slot(&self, slot: u16, from: usize, to: usize, keys: u32) {
        let (source, target) = (&self.masters[from], &self.masters[to]);
        self.open_slot(slot, from, to);
        let mut con = source.connection();
        loop {
            let Value::Array(found) = cmd!(con, "CLUSTER", "GETKEYSINSLOT", slot, keys) else {
                panic!("no keys")
            };
            let found: Vec<Vec<u8>> = found
                .into_iter()
                .map(|key| if let Value::BulkString(key) = key { key } else { panic!("{key:?}") })
                .collect();
            if found.is_empty() {
                break;
            }
            let found: Vec<&[u8]> = found.iter().map(Vec::as_slice).collect();
            cmd!(con, "MIGRATE", "127.0.0.1", target.port(), "", 0, 5000, "KEYS", &found);
            // The load shall meet the slot half moved.
            std::thread::sleep(Duration::from_millis(20));
        }
        self.close_slot(slot, from, to);
    }

    /// Begins to move a slot: keys that the source lacks are asked for at the target.
    #[track_caller]
    pub fn open_slot(&self, slot: u16, from: usize, to: usize) {
        let (source, target) = (&self.masters[from], &self.masters[to]);
        cmd!(target.connection(), "CLUSTER", "SETSLOT", slot, "IMPORTING", node_id(source));
        cmd!(source.connection(), "CLUSTER", "SETSLOT", slot, "MIGRATING", node_id(target));
    }

    /// Ends the move: the target owns the slot.
    #[track_caller]
    pub fn close_slot(&self, slot: u16, from: usize, to: usize) {
        let (source, target) = (&self.masters[from], &self.masters[to]);
        for node in [target, source].into_iter().chain(&self.masters) {
            cmd!(node.connection(), "CLUSTER", "SETSLOT", slot, "NODE", node_id(target));
        }
    }

    /// Moves a slot as Valkey 9 does by itself: keys and changes stream to the target.
    #[track_caller]
    pub fn migrate_slot(&self, slot: u16, from: usize, to: usize) {
        let (source, target_id) = (&self.masters[from], node_id(&self.masters[to]));
        let mut con = source.connection();
        cmd!(con, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target_id);
        let state = |con: &mut Connection| {
            let Value::Array(jobs) = cmd!(con, "CLUSTER", "GETSLOTMIGRATIONS") else {
                panic!("no jobs")
            };
            plain(&field(&jobs[0], "state").unwrap())
        };
        eventually(SOON, || {
            let state = state(&mut con);
            assert!(!["failed", "cancelled"].contains(&state.as_str()), "{}", source.log());
            state == "success"
        });
    }
}

/// Follows MOVED and ASK.
pub struct Client {
    ports: Vec<u16>,
    owners: HashMap<u16, u16>,
    connections: HashMap<u16, Connection>,
    /// Redirections followed so far.
    pub redirected: u32,
}

impl Client {
    fn connection(&mut self, port: u16) -> Option<&mut Connection> {
        if let Entry::Vacant(free) = self.connections.entry(port) {
            let address = ConnectionAddr::Tcp("127.0.0.1".to_owned(), port);
            let address = address.into_connection_info().ok()?;
            let settings = address.redis_settings().clone().set_skip_set_lib_name();
            let client = redis::Client::open(address.set_redis_settings(settings)).ok()?;
            let con = client.get_connection_with_timeout(Duration::from_secs(1)).ok()?;
            con.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
            free.insert(con);
        }
        self.connections.get_mut(&port)
    }

    /// Another node shall tell who has taken over from one that does not answer.
    fn forget(&mut self, slot: u16, port: u16) {
        self.connections.remove(&port);
        self.owners.remove(&slot);
        self.ports.rotate_left(1);
    }

    /// Sends a call to whoever owns `key`: the reply, the server's error, or None while the owner
    /// does not answer.
    pub fn call(&mut self, key: &[u8], call: &[Vec<u8>]) -> Option<Result<Value, String>> {
        let slot = slot(key);
        let mut command = redis::Cmd::new();
        for word in call {
            command.arg(word.as_slice());
        }
        let mut port = *self.owners.get(&slot).unwrap_or(&self.ports[0]);
        let mut asking = false;
        for _ in 0..10 {
            let Some(con) = self.connection(port) else {
                self.forget(slot, port);
                return None;
            };
            if std::mem::take(&mut asking) {
                con.req_command(&redis::cmd("ASKING")).ok()?;
            }
            let error = match con.req_command(&command).and_then(Value::extract_error) {
                Ok(value) => return Some(Ok(value)),
                Err(error) => error,
            };
            if error.is_io_error() || error.is_connection_dropped() {
                self.forget(slot, port);
                return None;
            }
            let text = error_text(&error);
            let words: Vec<&str> = text.split(' ').collect();
            match words[..] {
                [kind @ ("MOVED" | "ASK"), _, address] => {
                    self.redirected += 1;
                    port = address.rsplit(':').next().and_then(|p| p.parse().ok()).expect("a port");
                    asking = kind == "ASK";
                    if !asking {
                        self.owners.insert(slot, port);
                    }
                }
                _ => return Some(Err(text)),
            }
        }
        Some(Err("redirected without end".to_owned()))
    }

    /// As [`Client::call`] with words separated by blanks; anything but a reply fails the test.
    #[track_caller]
    pub fn say(&mut self, key: &str, text: &str) -> Value {
        let call: Vec<Vec<u8>> = text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        match self.call(key.as_bytes(), &call) {
            Some(Ok(value)) => value,
            other => panic!("{text}: {other:?}"),
        }
    }
}
