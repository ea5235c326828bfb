# Two commands matter: `make run` and `make test`. The scripts can be called without make, too.

.DEFAULT_GOAL := help
.PHONY: help setup run test test-one test-clients lint bench fuzz valgrind miri soak image test-image dist test-package

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

setup: ## install what is missing to build, run and test (apt; says what it does)
	@scripts/setup build server test lint

run: ## build, start a server with the module, show a first call; Ctrl-C stops it (PORT=6379)
	@scripts/run

test: ## all tests, the integration suite on every server
	@scripts/test

test-one: ## the integration suite on one server: SERVER=redis-8.2, valkey-9.1 or a path
	@scripts/test "$(or $(SERVER),redis-server)"

test-clients: ## the examples in seven languages and for Laravel, against real servers (CLIENTS="redis-py laravel")
	@scripts/test-clients $(CLIENTS)

lint: ## formatting, clippy and documentation, warnings denied
	@scripts/lint

bench: ## side-by-side speed (20 minutes; QUICK=1: 3); SERVER=redis-8.2, valkey-9.1, all; PEER_MODULE=path
	@scripts/bench

# The long forms, for before a release; docs/reliability.md says what each proves.

fuzz: ## libFuzzer on each target of fuzz/ (SECONDS=300 each); needs nightly and cargo-fuzz
	@scripts/fuzz "$(or $(SECONDS),300)"

valgrind: ## integration tests on a server under memcheck
	@scripts/valgrind

miri: ## core's unit tests interpreted; needs nightly's component miri
	@scripts/miri

soak: ## 10 million calls without a leak, and latency under 10,000 connections beside SET
	@scripts/soak

image: ## Docker images redis-limiter and valkey-limiter (REDIS=, VALKEY=: the images to base them on)
	@scripts/image

test-image: ## build both images and test their containers; skipped where no Docker Engine runs
	@scripts/test-image

dist: ## release artefacts into target/dist: a tarball and a Debian package
	@scripts/dist

test-package: ## build, install and load the release artefacts (RL_INSTALL=1: also on this machine)
	@scripts/test-package
