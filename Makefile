# Two commands matter: `make run` and `make test`. The scripts can be called without make, too.

.DEFAULT_GOAL := help
.PHONY: help setup run test test-one test-clients lint

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
