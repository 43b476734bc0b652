# Skerry. `make` alone lists the targets.
SHELL   := /bin/bash
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
GOBUILD := CGO_ENABLED=0 go build -trimpath -ldflags "-X main.version=$(VERSION)"

.PHONY: help
help: ## list the targets
	@b= n=; if [ -t 1 ] && [ -z "$$NO_COLOR" ] && [ "$$TERM" != dumb ]; then b=$$'\e[1m' n=$$'\e[0m'; fi; \
		grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14 | sed -E "s/^[a-z-]+/$$b&$$n/"

.PHONY: run
run: build ## start a server on 127.0.0.1: HTTP on 7001, the Redis protocol on 6380, data in ./data
	@echo "starting bin/skerry serve $(ARGS)" >&2
	@exec bin/skerry serve $(ARGS)

.PHONY: build
build: ## build bin/skerry
	@mkdir -p bin
	@[ -x bin/skerry ] && echo "building bin/skerry" >&2 || echo "building bin/skerry; the first build compiles everything, which can take a few minutes" >&2
	@$(GOBUILD) -o bin/skerry ./cmd/skerry

.PHONY: test
test: ## run the checks and tests of a commit; installs with apt what they need; CI=true adds the race detector
	@ci/test

.PHONY: quick
quick: ## run the short tests only; skips tests whose servers are not installed
	go test -short ./...

.PHONY: lint
lint: ## run vet, staticcheck, golangci-lint
	go vet ./...
	go tool -modfile=tools/go.mod staticcheck ./...
	go tool -modfile=tools/golangci.mod golangci-lint run

.PHONY: vuln
vuln: ## check the dependencies for known vulnerabilities (asks vuln.go.dev)
	@curl -fsS --max-time 10 -o /dev/null https://vuln.go.dev/index/db.json || { \
		echo "vuln: the vulnerability database at https://vuln.go.dev cannot be reached from here; nothing was checked" >&2; exit 1; }
	go tool -modfile=tools/go.mod govulncheck ./...

.PHONY: bench-kv
bench-kv: ## compare with redis-server and etcd, fsync before reply on all sides (ARGS=-h for more)
	ci/servers
	cd bench && go run ./kv $(ARGS)

.PHONY: bench-cluster
bench-cluster: ## compare three nodes with three of etcd: load, growth, fail-over (ARGS=-h for more)
	ci/servers
	@mkdir -p bin
	cd bench && go build -o ../bin/bench-cluster ./cluster && exec ../bin/bench-cluster $(ARGS)

.PHONY: bench-growth
bench-growth: ## compare 1 k to 50 M keys with Redis, and three nodes with etcd; draws a picture (ARGS=-h for more)
	ci/servers
	@mkdir -p bin
	cd bench && go build -o ../bin/bench-growth ./growth && exec ../bin/bench-growth $(ARGS)

.PHONY: bench-voter
bench-voter: ## compare procedures with Lua in redis-server and plpgsql in PostgreSQL (ARGS=-h for more)
	ci/servers
	@mkdir -p bin
	cd bench && go build -o ../bin/bench-voter ./voter && exec ../bin/bench-voter $(ARGS)

.PHONY: bench-web
bench-web: ## compare pages with sessions with net/http and Redis, and with fasthttp (ARGS=-h for more)
	ci/servers
	@mkdir -p bin
	cd bench && go build -o ../bin/bench-web ./web && exec ../bin/bench-web $(ARGS)

.PHONY: bench-records
bench-records: ## compare records over REST with PocketBase and with pgx on PostgreSQL (ARGS=-h for more)
	ci/servers
	@mkdir -p bin
	cd bench && go build -o ../bin/bench-records ./records && exec ../bin/bench-records $(ARGS)

.PHONY: bench-engines
bench-engines: ## compare capabilities on each engine with pgx and go-redis by hand (ARGS=-h for more)
	ci/servers
	@mkdir -p bin
	cd bench && go build -o ../bin/bench-engines ./engines && exec ../bin/bench-engines $(ARGS)

.PHONY: bench-cache
bench-cache: ## compare cached departments with PostgreSQL, otter and nginx; needs wrk and nginx (ARGS=-h for more)
	ci/servers
	@mkdir -p bin
	cd bench && go build -o ../bin/bench-cache ./cache && exec ../bin/bench-cache $(ARGS)

.PHONY: bench-lane
bench-lane: ## compare keys over HTTP with the lane on and off (ARGS=-h for more)
	@mkdir -p bin
	cd bench && go build -o ../bin/bench-lane ./lane && exec ../bin/bench-lane $(ARGS)

.PHONY: bench-series
bench-series: ## compare time series with Prometheus's tsdb package (ARGS=-h for more)
	@mkdir -p bin
	cd bench && go build -o ../bin/bench-series ./series && exec ../bin/bench-series $(ARGS)

.PHONY: bench-graph
bench-graph: ## compare graphs with TinkerGraph and JanusGraph, and measure 10 M edges in process (ARGS=-h for more)
	ci/servers
	ci/jars ../bench/graph/gremlinserver gremlinserver
	ci/jars ../bench/graph/janusgraph janusgraph
	@mkdir -p bin
	cd bench && go build -o ../bin/bench-graph ./graph && exec ../bin/bench-graph $(ARGS)

.PHONY: bench-sessions
bench-sessions: ## compare a site with new sessions on each engine and with SETEX by hand (ARGS=-h for more)
	ci/servers
	@mkdir -p bin
	cd bench && go build -o ../bin/bench-sessions ./sessions && exec ../bin/bench-sessions $(ARGS)

.PHONY: bench-admin
bench-admin: ## measure the targets of the admin page with 1 M records and Chromium (ARGS=-h for more)
	ci/servers
	@mkdir -p bin
	cd bench && go build -o ../bin/bench-admin ./admin && exec ../bin/bench-admin $(ARGS)

.PHONY: bench-btree
bench-btree: ## compare the B-tree with google/btree and tidwall/btree in one run (ARGS=-h for more)
	cd bench && go run ./btree $(ARGS)

.PHONY: bench-report
bench-report: ## make HTML pages of all raw output in bench/results, with an index
	cd bench && go run ./report $(ARGS)

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZ (30s)
	@ci/fuzz

.PHONY: soak
soak: build ## run every workload for SOAK (10m) and check it, then new simulation seeds, fragmentation and faults in real clusters, each as long
	bin/skerry bench --duration $(or $(SOAK),10m)
	SKERRY_SIM_FOR=$(or $(SOAK),10m) go test -count=1 -timeout 0 -v -run '^TestSimulation$$' ./engine/embedded
	SKERRY_SOAK=$(or $(SOAK),10m) go test -count=1 -timeout 0 -v -run '^TestFragmentation$$' ./engine/embedded
	SKERRY_SOAK=$(or $(SOAK),10m) go test -count=1 -timeout 0 -v -run '^TestDropWithSubscribers$$' ./record
	SKERRY_SOAK=$(or $(SOAK),10m) go test -count=1 -timeout 0 -v -run '^TestSoakFaults$$' ./cli
	SKERRY_DIFF_FOR=$(or $(SOAK),10m) go test -count=1 -timeout 0 -v -run '^TestDifferential$$' ./web/graphs
	SKERRY_GRAPH_OPS=1000000 go test -count=1 -timeout 0 -v -run '^TestConcurrent$$' ./graph

.PHONY: plant
plant: ## apply known bugs to a copy, one at a time, and expect their tests to fail (ARGS: names)
	go run ./ci/plant $(ARGS)

.PHONY: clean
clean: ## remove build output; never the data
	rm -rf bin .cache
	go clean ./...
