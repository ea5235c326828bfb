# Two commands matter: `make run` and `make test`. The scripts can be called without make, too.

.DEFAULT_GOAL := help
.PHONY: help setup run test test-one lint image test-image dist test-package

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

lint: ## formatting, clippy and documentation, warnings denied
	@scripts/lint

image: ## Docker images redis-limiter and valkey-limiter (REDIS=, VALKEY=: the images to base them on)
	@scripts/image

test-image: ## build both images and test their containers; skipped where no Docker Engine runs
	@scripts/test-image

dist: ## release artefacts into target/dist: a tarball and a Debian package
	@scripts/dist

test-package: ## build, install and load the release artefacts (RL_INSTALL=1: also on this machine)
	@scripts/test-package
