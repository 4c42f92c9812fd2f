# What contributors and CI run. CONTRIBUTING.md says how long it takes.
GO ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.7.0

# The root module, and those with dependencies that it must not have: each is in
# go.work. The slowest packages come first.
PACKAGES = ./redlock ./multiplex ./cmd/redlock ./cmd/loadgen/load ./proof/sim ./... ./cmd/... ./proof/...
# Modules with dependencies of their own, which may want a newer Go.
CONTRIB = contrib/adapters contrib/otel contrib/prometheus
COMPARE = bench/compare
ETCD = $(COMPARE)/etcd
# It has a workspace of its own too, and wants the same Go as COMPARE.
CADDY = contrib/caddystorage
# The systems of docs/deploy.md besides this machine's.
SYSTEMS ?= linux/386 linux/arm linux/arm64 darwin/amd64 darwin/arm64 freebsd/amd64 windows/amd64 windows/arm64

# FULL=1 makes "make check" run the long form of each part, for most of a day.
FULL ?=
# full takes its second argument with FULL=1, else its first.
full = $(if $(FULL),$(2),$(1))

# What runs under the race detector besides the library: code whose goroutines
# matter. FULL=1 takes everything.
RACE = ./resp ./conn ./multiplex ./redlock/... ./redlocktest ./internal/pure ./internal/redistest ./contrib/... ./bench \
	./cmd/... ./proof/history/... ./proof/sim

GOTEST = $(GO) test -count=1 -timeout 20m
# Most tests with servers wait, so a package's tests run in several processes.
SHARDED = $(GOTEST) -p 2 -exec "sh '$(CURDIR)/testdata/shards.sh'"
# Tests say themselves that they run alone or long (internal/redistest/marks.go).
# OTHERS runs what does not, and the others one kind of those.
OTHERS = REDMUX_TESTS=others $(SHARDED)
MARKED = sh testdata/marked.sh
ALONE = $(GOTEST) -p 1 -parallel 1 -run "$$($(MARKED) alone)" $$($(MARKED) packages alone)
LONG = $(SHARDED) -run "$$($(MARKED) long)" $$($(MARKED) packages long)

# The race detector needs cgo, which is off where there is no C compiler.
HAS_RACE = [ "$$($(GO) env CGO_ENABLED)" = 1 ]
HAS_COMPARE = (cd $(COMPARE) && $(GO) list -m) >/dev/null 2>&1
HAS_CONTRIB = (for m in $(CONTRIB); do (cd $$m && $(GO) list -m) || exit; done) >/dev/null 2>&1
NO_RACE = "NOT COVERED: the tests under the race detector, which needs a C compiler"
NO_COMPARE = "NOT COVERED: $(COMPARE) (other implementations on the same masters), which needs Go $$(sed -n 's/^go //p' $(COMPARE)/go.mod)"
NO_CONTRIB = "NOT COVERED: $(CONTRIB), which need Go $$(sed -n 's/^go //p' contrib/adapters/go.mod)"
NO_CADDY = "NOT COVERED: $(CADDY), which needs Go $$(sed -n 's/^go //p' $(CADDY)/go.mod)"
# As contrib/adapters looks for it.
HAS_POSTGRES = (command -v postgres || ls /usr/lib/postgresql/*/bin/initdb) >/dev/null 2>&1
NO_POSTGRES = "NOT COVERED: contrib/fencing on PostgreSQL, whose programs are not installed (SQLite needs none)"

# Installs redis-server if possible, and says what is not covered without it.
SERVER = sh testdata/servers.sh

.PHONY: help test check lint race contrib fuzz sim model mutants faults servers bench release
.NOTPARALLEL:
.DEFAULT_GOAL := help

## help: list the targets
help:
	@sed -n 's/^## \([a-z-]*\): /\1	/p' Makefile | awk -F '\t' '{ printf "  %-13s %s\n", $$1, $$2 }'

## test: what a change is likely to break; run it before each commit
test:
	@$(SERVER)
	@$(OTHERS) $(PACKAGES)
	@$(ALONE)
	@$(SERVER) check

## check: everything else that CI runs after "make test"; FULL=1 for the long forms
check: lint race contrib
	@$(LONG)
	@$(MAKE) mutants $(if $(FULL),,ONLY='$(SAMPLE)')
	@$(MAKE) servers SUITE=$(call full,quick,full)
	@$(MAKE) release
	@$(MAKE) sim SEEDS=$(call full,300,3000)
	@$(MAKE) model MODEL=$(call full,quick,full)
	@$(MAKE) faults FOR=$(call full,60s,15m) FAULTS=-q
	@# A number of inputs, since a time limit can end in a false failure (go.dev/issue/75804, fixed in Go 1.27).
	@$(MAKE) fuzz FUZZTIME=$(call full,10000x,1000000x) INPUTS=$(call full,1e7,1e8)
	$(GO) test -run '^$$' -bench . -benchtime 200x ./bench
	@$(MAKE) bench CASE=quick
	$(GO) run ./cmd/loadgen -d 1s -q

# A type check finds what is missing or does not fit. Only vet compiles, which
# takes two minutes of processor time for each system with a cold cache.
## lint: a type check for each supported system, gofmt, go vet, staticcheck, and the lowest versions of what is required
lint:
	$(GO) run ./proof/typecheck $(SYSTEMS) -- $(PACKAGES)
	@if $(HAS_CONTRIB); then set -e; top=$$PWD; $(GO) build -o "$$top/.typecheck" ./proof/typecheck; trap 'rm -f "$$top/.typecheck"' EXIT; \
		for m in $(CONTRIB); do (cd $$m && "$$top/.typecheck" $(SYSTEMS) -- ./...); done; else echo $(NO_CONTRIB); fi
	@$(if $(FULL),set -e; for s in $(SYSTEMS); do (set -x; CGO_ENABLED=0 GOOS=$${s%/*} GOARCH=$${s#*/} $(GO) vet $(PACKAGES)); done)
	@unformatted=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .); if [ -n "$$unformatted" ]; then echo "not gofmt-ed: $$unformatted"; exit 1; fi
	$(GO) vet $(PACKAGES)
	$(GO) run $(STATICCHECK) $(PACKAGES)
	GO="$(GO)" sh testdata/lowest.sh
	@if $(HAS_COMPARE); then set -ex; for m in $(COMPARE) $(ETCD) $(CADDY); do (cd $$m && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./...); done; fi
	@if $(HAS_CONTRIB); then set -ex; for m in $(CONTRIB); do (cd $$m && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./...); done; fi

# Without FULL=1, -short leaves out the runs of the program redlock, whose parts
# are under the race detector in their own tests. Of the library without the
# poller, conn and multiplex have the goroutines that read instead. What redlock
# does above them does not differ, and is under the race detector once.
## race: most packages under the race detector; and the library without the poller, as on systems other than Linux
race:
	@$(SERVER)
	@if $(HAS_RACE); then set -ex; $(OTHERS) -race $(call full,-short $(RACE),$(PACKAGES)); \
		$(if $(FULL),$(subst $(GOTEST),$(GOTEST) -race,$(ALONE); $(LONG));) else echo $(NO_RACE); fi
	@race=; if $(HAS_RACE); then race=-race; fi; set -ex; $(OTHERS) $$race -tags redmux_portable ./multiplex ./conn; \
		$(OTHERS) $(call full,,$$race) -tags redmux_portable ./redlock/... \
		$(if $(FULL),; $(subst $(GOTEST),$(GOTEST) $$race -tags redmux_portable,$(ALONE)))

# Under the race detector Caddy, etcd and the other implementations take minutes
# to compile, and their races are not ours.
## contrib: the modules with dependencies of their own: adapters and a real Caddy, OpenTelemetry and Prometheus, other implementations
contrib:
	@$(SERVER)
	@race=; if $(HAS_RACE); then race=-race; fi; \
	if $(HAS_CONTRIB); then set -ex; for m in $(CONTRIB); do (cd $$m && $(GOTEST) $$race ./...); done; else echo $(NO_CONTRIB); fi
	@if (cd $(CADDY) && $(GO) list -m) >/dev/null 2>&1; then set -x; cd $(CADDY) && $(GOTEST) ./...; else echo $(NO_CADDY); fi
	@$(HAS_POSTGRES) || echo $(NO_POSTGRES)
	@if $(HAS_COMPARE); then set -ex; for m in $(COMPARE) $(ETCD); do (cd $$m && $(GOTEST) -p 1 ./...); done; else echo $(NO_COMPARE); fi

FUZZTIME ?= 20s
INPUTS ?= 1e7
# How long what may take hours may take; 0 is no limit.
TIMEOUT ?= 0
# Inputs that reach new code are minimized before they are kept; without a bound
# that may take a minute for each.
## fuzz: each fuzz target for FUZZTIME; then INPUTS inputs to the decoder and to a second one, written from the specification
fuzz:
	@set -e; grep -rl --include='*_test.go' '^func Fuzz' . | grep -v '^\./$(COMPARE)/' | sort | while read -r file; do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$file"); do \
			(set -x; $(GO) test "$$(dirname "$$file")" -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s </dev/null) || exit 1; \
		done; \
	done
	$(GO) test ./resp -count=1 -run '^TestDecoderManyInputs$$' -v -timeout $(TIMEOUT) -decoder.inputs=$(INPUTS)

SEEDS ?= 1000
# The first of the seeds; FIRST=$$(date +%s) takes new ones.
FIRST ?= 1
## sim: SEEDS simulations of the whole code under a simulated clock
sim:
	@out=$$(mktemp) || exit; trap 'rm -f "$$out"' EXIT; \
	(set -x; $(GO) test ./proof/sim -count=1 -run '^TestSeeds$$' -v -timeout $(TIMEOUT) -sim.seeds=$(SEEDS) -sim.first=$(FIRST)) >"$$out"; \
	code=$$?; grep -vE '^ *(===|--- PASS)' "$$out"; exit $$code

MODEL ?= full
## model: check the rules with spin, and find a counterexample for each rule that is dropped; MODEL=quick is shorter
model:
	@MODEL=$(MODEL) sh testdata/model/run.sh

# One planted bug per package, found by quick tests.
SAMPLE = ^(any-negative-is-null|backlog-without-bound|debts-out-of-order|debt-forgotten-on-death|any-status-grants|acquire-signal-after-the-grant)$$
## mutants: plant each bug of testdata/mutants and check that its tests find it; ONLY=regexp
mutants:
	@$(SERVER)
	@$(GO) run ./proof/mutants $(if $(ONLY),-only '$(ONLY)')

FOR ?= 2m
# FAULTS=--soak fails if memory, goroutines or descriptors grow (FOR=8h).
FAULTS ?=
## faults: everything that can fail on real servers at once, for FOR; FAULTS=flags of that command
faults:
	@$(SERVER)
	$(GO) run ./proof/faults/cmd/faults --for $(FOR) $(FAULTS)

SUITE ?= quick
## servers: fetch the servers of other products and versions, some 65 MB, and run the tests that need servers over each and over mixed groups; SUITE=full leaves out nothing
servers:
	@$(SERVER)
	@sh testdata/fetch.sh
	@GO="$(GO)" sh testdata/matrix.sh $(SUITE)

CASE ?= quick
# A file that keeps the figures, as bench/results.csv.
CSV ?=
## bench: this library beside others; CASE=quick, peers, hotkey, handover, kinds, overload, faults, etcd or elections
bench:
	@$(SERVER)
	cd $(if $(filter etcd elections,$(CASE)),$(ETCD),$(COMPARE)) && $(GO) run . $(CASE) $(if $(CSV),'$(abspath $(CSV))')

## release: what has changed incompatibly since the last tag, or since SINCE; and each module, from a local proxy, as its users use it
release:
	@$(SERVER)
	@GO="$(GO)" sh testdata/apidiff.sh
	@GO="$(GO)" sh testdata/release.sh
