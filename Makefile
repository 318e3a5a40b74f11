# Everything there is to do with Hedgerow, by name. `make help` lists it.

CARGO ?= cargo
DEMO_PORT ?= 8080

.DEFAULT_GOAL := help
.PHONY: help demo run build test check fmt lint deny docs bench drill drill-real planner-real soak fuzz loom mutation dashboard-test dashboard-short screenshots tools clean

help: ## list this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## run everything in one process tree and print a tour (DEMO_PORT=8080)
	$(CARGO) run --locked --release -p hedgerow -- demo --port $(DEMO_PORT)

run: ## serve the PHP example on 127.0.0.1:8080
	$(CARGO) run --locked --release -p hedgerow -- serve -c examples/php-psr15/hedgerow.toml

build: ## build the release binary
	$(CARGO) build --locked --release -p hedgerow

tools: ## install what the tests need, where it may be installed
	@./scripts/tools

test: tools ## run every test: Rust, PHP, and the whole through the real binary
	$(CARGO) test --locked --workspace --quiet
	phpunit -c sdk/php/phpunit.xml

check: fmt lint deny docs test dashboard-short ## what must be green before a change is done

fmt:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --locked --workspace --all-targets --quiet -- -D warnings

deny: ## licences, bans, sources (and advisories where the network allows)
	@./scripts/deny

docs: ## build the API documentation and fail on a warning
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --quiet

bench: ## measure against real peers, as ratios
	bench/run all

drill: ## ten thousand random faults, reloads under load, slow uploads, 100,000 hedged calls (SEED=n replays)
	FAULTS=$${FAULTS:-10000} RELOADS=$${RELOADS:-40} UPLOADS=$${UPLOADS:-5000} CALLS=$${CALLS:-100000} \
	  $(CARGO) test --locked --release -p hedgerow --test drill -- --nocapture --test-threads 1

soak: ## a million random operations on the cache port, a hundred thousand hedged calls (HEDGEROW_SEED=n replays)
	HEDGEROW_OPS=$${HEDGEROW_OPS:-125000} $(CARGO) test --locked --release -p hedgerow-cache --test cache storm -- --nocapture
	$(CARGO) test --locked --release -p hedgerow-upstream --test upstream -- --ignored soak --nocapture

drill-real: ## a stopped redis-server under traffic: direct, nutcracker, Envoy, Hedgerow (8 min; HEDGEROW_BIN= takes another build)
	$(if $(HEDGEROW_BIN),,$(CARGO) build --locked --release -p hedgerow)
	bench/run incident --seed $${SEED:-1} --svg $${SVG:-target/incident-real.svg}

planner-real: ## what plan hedge foretells, and what the egress port then does (2 min; HEDGEROW_BIN= takes another build)
	$(if $(HEDGEROW_BIN),,$(CARGO) build --locked --release -p hedgerow)
	bench/run planner --seed $${SEED:-1}

loom: ## race the lock-free policies through every interleaving
	RUSTFLAGS="--cfg hedgerow_loom" $(CARGO) test --locked --release -p hedgerow-policy --target-dir target/loom loom

mutation: ## change the repair rule five ways and see the drill's figures notice each
	$(CARGO) test --locked -p hedgerow-lab --test repair_rule -- --ignored --nocapture

fuzz: ## a long run of seeded mutations through every decoder (HEDGEROW_MUTATIONS=n); cargo-fuzz targets are in fuzz/
	HEDGEROW_MUTATIONS=$${HEDGEROW_MUTATIONS:-5000000} $(CARGO) test --locked --release -p hedgerow-wire --test mutations -- --nocapture

dashboard-test: tools ## the dashboard in a real Chromium, before the real binary (HEDGEROW_BIN= takes another build)
	$(if $(HEDGEROW_BIN),,$(CARGO) build --locked -p hedgerow)
	dashboard/test/run node --test --test-reporter spec dashboard/test/*.test.mjs

dashboard-short: tools ## its short form: one incident, and the page at work (a minute)
	$(if $(HEDGEROW_BIN),,$(CARGO) test --locked --workspace --no-run --quiet)
	DASHBOARD_TEST=short dashboard/test/run node --test --test-reporter spec dashboard/test/*.test.mjs

screenshots: tools ## the pictures of the docs: three incidents, played anew (4 min)
	$(if $(HEDGEROW_BIN),,$(CARGO) build --locked -p hedgerow)
	dashboard/test/run node dashboard/test/screenshots.mjs docs/dashboard

clean:
	$(CARGO) clean
