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

# Tests of time or throughput. "make test" runs them after the others, one at a
# time.
ALONE = ^(TestFaultWaitersAreTold_R11|TestFaultThreeOfFiveStopped_R12_R26|TestFaultOneOfFiveStoppedUnderLoad_R5_R26|TestFaultOldBytesArriveAfterTheNewConnection_R8|TestFaultStalledTLSNodesAndClose_R26_R28|TestFaultAllNodesStoppedUnderAHold_R13|TestFaultHostileVoteCompletesNoQuorum_R17|TestNothingIsAllocated.*|TestRunOfALostLockCatchesStrays_R13)$$
ALONE_IN = ./redlock ./cmd/redlock

# Tests of the proof itself, which only "make check" runs: measurements of
# recovery and memory, histories of real servers, planted bugs, simulations with
# a part left out, all faults at once, documents.
LONG_ALONE = ^(TestRecovery_R23_R26|TestRecoveryFinds_R23_R26|TestStalledNodeCostsNoMemory_R26|TestStalledFindsALeak_R26)$$
LONG_OTHER = ^(TestBrokenClientsAreFound|TestFaultsQuick|TestEachBrokenPartIsFound|TestEachPartIsNeeded|TestViolatedRun|TestHistor.*_OnRealServers|TestWhatBecomesOfMutants|TestNoRaceDetector|TestTheUnbrokenTreeMustPass|TestDocuments)$$
LONG = $(LONG_ALONE)|$(LONG_OTHER)
LONG_IN = ./proof/...

LIBRARY = ./redlock/... ./multiplex ./conn
# What runs under the race detector besides the library: code whose goroutines
# matter. FULL=1 takes everything.
RACE = ./resp ./conn ./multiplex ./redlock/... ./redlocktest ./internal/pure ./internal/redistest ./contrib/... ./bench \
	./cmd/... ./proof/history/... ./proof/sim

GOTEST = $(GO) test -count=1 -timeout 20m
# Most tests with servers wait, so a package's tests run in several processes.
SHARDED = $(GOTEST) -p 3 -exec "sh '$(CURDIR)/testdata/shards.sh'"

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

.PHONY: help test check server servers test-servers browser long race portable compare contrib lint systems tidy fuzz decoder sim \
	model mutants sample histories faults soak bench vulncheck apidiff release-check
.NOTPARALLEL:
.DEFAULT_GOAL := help

## help: list the targets
help:
	@sed -n 's/^## \([a-z-]*\): /\1	/p' Makefile | awk -F '\t' '{ printf "  %-13s %s\n", $$1, $$2 }'

## test: what a change is likely to break; run it before each commit
test: server
	@$(SHARDED) -skip '$(ALONE)|$(LONG)' $(PACKAGES)
	@$(GOTEST) -p 1 -parallel 1 -run '$(ALONE)' $(ALONE_IN)
	@sh testdata/servers.sh check

## check: everything else that CI runs after "make test"; FULL=1 for the long forms
check: lint apidiff long race portable compare contrib sample test-servers release-check
	@$(MAKE) sim SEEDS=$(call full,300,3000)
	@MODEL=$(call full,quick,full) $(MAKE) model
	$(GO) run ./proof/faults/cmd/faults --for $(call full,60s,15m) -q
	@# A number of inputs, since a time limit can end in a false failure (go.dev/issue/75804, fixed in Go 1.27).
	@$(MAKE) fuzz FUZZTIME=$(call full,10000x,1000000x)
	@$(MAKE) decoder INPUTS=$(call full,1e7,1e8)
	$(GO) test -run '^$$' -bench . -benchtime 200x ./bench
	@$(MAKE) bench CASE=quick
	$(GO) run ./cmd/loadgen -d 1s -q

## lint: a type check for each supported system, gofmt, go vet, staticcheck, and the lowest versions of what is required
lint: systems
	@unformatted=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .); if [ -n "$$unformatted" ]; then echo "not gofmt-ed: $$unformatted"; exit 1; fi
	$(GO) vet $(PACKAGES)
	$(GO) run $(STATICCHECK) $(PACKAGES)
	GO="$(GO)" sh testdata/lowest.sh
	@if $(HAS_COMPARE); then set -ex; for m in $(COMPARE) $(ETCD) $(CADDY); do (cd $$m && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./...); done; fi
	@if $(HAS_CONTRIB); then set -ex; for m in $(CONTRIB); do (cd $$m && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./...); done; fi

# A type check finds what is missing or does not fit. Only vet compiles, which
# takes two minutes of processor time for each system with a cold cache.
## systems: type-check all packages and tests for each supported system; vet them with FULL=1
systems:
	$(GO) run ./proof/typecheck $(SYSTEMS) -- $(PACKAGES)
	@if $(HAS_CONTRIB); then set -e; top=$$PWD; $(GO) build -o "$$top/.typecheck" ./proof/typecheck; trap 'rm -f "$$top/.typecheck"' EXIT; \
		for m in $(CONTRIB); do (cd $$m && "$$top/.typecheck" $(SYSTEMS) -- ./...); done; else echo $(NO_CONTRIB); fi
	@$(if $(FULL),set -e; for s in $(SYSTEMS); do (set -x; CGO_ENABLED=0 GOOS=$${s%/*} GOARCH=$${s#*/} $(GO) vet $(PACKAGES)); done)

## long: the tests that "make test" leaves out
long: server
	@$(SHARDED) -run '$(LONG_OTHER)' $(LONG_IN)
	@$(GOTEST) -p 1 -parallel 1 -run '$(LONG_ALONE)' ./proof/faults/single

## race: the library, its commands and what judges it under the race detector
race: server
	@if $(HAS_RACE); then set -ex; $(SHARDED) -race -skip '$(ALONE)|$(LONG)' $(call full,$(RACE),$(PACKAGES)); \
		$(if $(FULL),$(GOTEST) -p 1 -parallel 1 -race -run '$(ALONE)|$(LONG)' $(ALONE_IN) $(LONG_IN);) else echo $(NO_RACE); fi

## portable: the library without the poller, as on systems other than Linux, under the race detector
portable: server
	@race=; if $(HAS_RACE); then race=-race; fi; set -ex; $(SHARDED) $$race -tags redmux_portable -skip '$(ALONE)' $(LIBRARY); \
	$(if $(FULL),$(GOTEST) -p 1 -parallel 1 $$race -tags redmux_portable -run '$(ALONE)' $(LIBRARY))

# etcd's server takes long to compile, and its races are not ours.
## compare: other implementations on the same masters, under the race detector, and etcd
compare: server
	@race=; if $(HAS_RACE); then race=-race; fi; \
	if $(HAS_COMPARE); then set -x; cd $(COMPARE) && $(GOTEST) -p 1 $$race ./...; else echo $(NO_COMPARE); fi
	@if $(HAS_COMPARE); then set -x; cd $(ETCD) && $(GOTEST) ./...; fi

# Under the race detector Caddy takes minutes to compile, and its races are not
# ours.
## contrib: the adapters with the real gocron, cron and certmagic, recipes with asynq, a real Caddy, fencing with databases, OpenTelemetry and Prometheus, under the race detector
contrib: server
	@race=; if $(HAS_RACE); then race=-race; fi; \
	if $(HAS_CONTRIB); then set -ex; for m in $(CONTRIB); do (cd $$m && $(GOTEST) $$race ./...); done; else echo $(NO_CONTRIB); fi
	@if (cd $(CADDY) && $(GO) list -m) >/dev/null 2>&1; then set -x; cd $(CADDY) && $(GOTEST) ./...; else echo $(NO_CADDY); fi
	@$(HAS_POSTGRES) || echo $(NO_POSTGRES)

## server: install redis-server if possible, and say what is not covered without it
server:
	@sh testdata/servers.sh

## servers: fetch the servers of other products and versions into a cache, some 65 MB (docs/internals/servers.md)
servers: server
	@sh testdata/fetch.sh

SUITE ?= $(call full,quick,full)
## test-servers: the tests that need servers, over each fetched one and over mixed groups; SUITE=quick or full
test-servers: servers
	@GO="$(GO)" sh testdata/matrix.sh $(SUITE)

# A folder for pictures of the report: make browser PICTURES=/tmp/report
PICTURES ?=
## browser: install chromium if possible, and test loadgen's report in it; PICTURES=folder keeps pictures
browser:
	@sh testdata/browser.sh
	$(if $(PICTURES),mkdir -p '$(abspath $(PICTURES))')
	$(GO) test -count=1 ./cmd/loadgen/internal/report $(if $(PICTURES),-report.pictures='$(abspath $(PICTURES))')

FUZZTIME ?= 20s
# Inputs that reach new code are minimized before they are kept; without a bound
# that may take a minute for each.
## fuzz: each fuzz target for FUZZTIME
fuzz:
	@set -e; grep -rl --include='*_test.go' '^func Fuzz' . | grep -v '^\./$(COMPARE)/' | sort | while read -r file; do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$file"); do \
			(set -x; $(GO) test "$$(dirname "$$file")" -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s </dev/null) || exit 1; \
		done; \
	done

INPUTS ?= 1e8
# How long a target that may take hours may take; 0 is no limit.
TIMEOUT ?= 0
## decoder: INPUTS inputs to the decoder and to a second one, written from the specification
decoder:
	$(GO) test ./resp -count=1 -run '^TestDecoderManyInputs$$' -v -timeout $(TIMEOUT) -decoder.inputs=$(INPUTS)

SEEDS ?= 1000
# The first of the seeds; FIRST=$$(date +%s) takes new ones.
FIRST ?= 1
## sim: SEEDS simulations of the whole code under a simulated clock
sim:
	@out=$$(mktemp) || exit; trap 'rm -f "$$out"' EXIT; \
	(set -x; $(GO) test ./proof/sim -count=1 -run '^TestSeeds$$' -v -timeout $(TIMEOUT) -sim.seeds=$(SEEDS) -sim.first=$(FIRST)) >"$$out"; \
	code=$$?; grep -vE '^ *(===|--- PASS)' "$$out"; exit $$code

## model: check the rules with spin, and find a counterexample for each rule that is dropped; MODEL=quick is shorter
model:
	@sh testdata/model/run.sh

## mutants: plant each bug of testdata/mutants and check that its tests find it; ONLY=regexp
mutants: server
	$(GO) run ./proof/mutants $(if $(ONLY),-only '$(ONLY)')

# One mutant per package, found by quick tests.
SAMPLE = ^(any-negative-is-null|backlog-without-bound|debts-out-of-order|debt-forgotten-on-death|any-status-grants|acquire-signal-after-the-grant)$$
## sample: plant some of them, all with FULL=1
sample: server
	@$(GO) run ./proof/mutants $(if $(FULL),,-only '$(SAMPLE)')

## histories: runs on real servers under faults, recorded by several processes and judged twice
histories: server
	$(GO) test -count=1 -v -run 'OnRealServers' ./proof/history

FOR ?= 2m
## faults: everything that can fail on real servers at once, for FOR; then recovery, and memory with a stalled node
faults: server
	$(GO) run ./proof/faults/cmd/faults --for $(FOR)
	$(GO) run ./proof/faults/cmd/faults recovery --repeats 5
	$(GO) run ./proof/faults/cmd/faults stalled --for 10s

## soak: the same for FOR (FOR=8h); fails if memory, goroutines or descriptors grow
soak: server
	$(GO) run ./proof/faults/cmd/faults --soak -q --for $(FOR)

CASE ?= quick
# A file that keeps the figures, as bench/results.csv.
CSV ?=
## bench: this library beside others; CASE=quick, peers, hotkey, handover, kinds, overload, faults, etcd or elections
bench: server
	cd $(if $(filter etcd elections,$(CASE)),$(ETCD),$(COMPARE)) && $(GO) run . $(CASE) $(if $(CSV),'$(abspath $(CSV))')

GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0

## tidy: go mod tidy in each module
tidy:
	@sh testdata/tidy.sh

# Not in check: it needs vuln.go.dev.
## vulncheck: known vulnerabilities in what the library and the commands call
vulncheck:
	$(GO) run $(GOVULNCHECK) ./... ./cmd/...

## apidiff: what has changed incompatibly since the last tag, or since SINCE
apidiff:
	@GO="$(GO)" sh testdata/apidiff.sh

## release-check: offer the last commit in a local module proxy, and use each module as its users do (docs/internals/releasing.md)
release-check: server
	$(GO) run ./proof/release
