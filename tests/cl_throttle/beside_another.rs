//! Beside a module that owns the name, and with the option set to no.

use super::support::*;
use super::throttle;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the other module into a folder that goes with the value.
fn build_owner() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let library = dir.path().join("owner.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cl_throttle/owner.c");
    let args = ["-std=c11", "-O1", "-Wall", "-Wextra", "-fPIC", "-shared", "-o"];
    let compiler = std::env::var_os("CC").unwrap_or("cc".into());
    let out = Command::new(compiler).args(args).arg(&library).arg(&source).output().expect("cc");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    (dir, library)
}

fn load(library: &Path) -> String {
    format!("loadmodule \"{}\"", library.display())
}

#[track_caller]
fn assert_the_other_answers(server: &Server) {
    let mut con = server.connection();
    assert_eq!(plain(&cmd!(con, "CL.THROTTLE", "k", 0, 1, 3600)), "the other one");
    assert_eq!(five(&cmd!(con, "RL.BUCKET", "k", 1, 5))[..3], [1, 5, 4]);
}

#[test]
fn loaded_after_the_owner_ours_goes_on_without() {
    let (_dir, owner) = build_owner();
    let server = Server::builder()
        .without_module()
        .config(load(&owner))
        .config(load(&module_path()))
        .start();
    assert_the_other_answers(&server);
    assert!(server.log().contains("another module owns CL.THROTTLE"), "{}", server.log());
}

#[test]
fn loaded_before_the_owner_ours_must_be_told_no() {
    let (_dir, owner) = build_owner();
    let stopped = Server::builder().config(load(&owner)).try_start();
    assert!(stopped.as_ref().is_err_and(|log| log.contains("owner.so")), "{stopped:?}");
    let server = Server::builder().config("limiter.cl-throttle no").config(load(&owner)).start();
    assert_the_other_answers(&server);
    assert!(!server.log().contains("owns CL.THROTTLE"), "{}", server.log());
}

#[test]
fn no_leaves_the_command_out() {
    for server in [
        Server::builder().config("limiter.cl-throttle no"),
        Server::builder().module_args(&["cl-throttle", "no"]),
    ] {
        let server = server.start();
        let mut con = server.connection();
        assert!(err!(con, "CL.THROTTLE", "k", 0, 1, 1).starts_with("ERR unknown command"));
        assert_eq!(five(&cmd!(con, "RL.BUCKET", "k", 1, 5))[..3], [1, 5, 4]);
        assert!(!server.log().contains("owns CL.THROTTLE"), "{}", server.log());
    }
    let server = Server::builder().config("limiter.cl-throttle yes").start();
    assert_eq!(throttle(&mut server.connection(), "k 0 1 3600"), [0, 1, 0, -1, 3_600]);
}
