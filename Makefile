# `make` lists the targets. Everything builds into CARGO_TARGET_DIR when that is set.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help run test clients lint bench soak

TASK ?= Find the main reasons why sales fell and write a review
FILE ?= samples/sales-notes.pdf
OUTPUT ?= out/
CASES ?= 20000

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## Install what is missing, build, and do the sample job (TASK=, FILE=, OUTPUT=)
	@scripts/setup.sh build
	@binary=$$(scripts/build.sh); exec "$$binary" run "$$TASK" --file "$$FILE" --output "$$OUTPUT"

test: ## Install what is missing and run all tests
	@scripts/setup.sh build
	@scripts/setup.sh test
	@cargo nextest run --workspace

clients: ## Run the official clients against the server (Python, Node.js and Chromium are installed where missing)
	@scripts/setup.sh build
	@scripts/clients.sh python
	@scripts/clients.sh js
	@scripts/clients.sh browser

lint: ## Check formatting, lints and links
	@scripts/setup.sh build
	@scripts/setup.sh lint
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets --quiet -- -D warnings
	@scripts/check-links.sh

bench: ## Measure a release build (ARGS=, see docs/benchmark.md)
	@scripts/setup.sh build
	@scripts/bench.sh $(ARGS)

soak: ## Run all tests with many more generated cases (CASES=)
	@scripts/setup.sh build
	@scripts/setup.sh test
	@PROPTEST_CASES="$(CASES)" NEXTEST_PROFILE=soak cargo nextest run --workspace

export TASK FILE OUTPUT
