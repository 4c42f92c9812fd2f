# Everything that a contributor or CI runs. `make test` is the one that counts.
GO ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.7.0
FUZZTIME ?= 20s
DURATION ?= 3s

# What this machine's Go can do. The race detector needs cgo, which is off where there is no C compiler. bench/compare is a
# module of its own and wants a newer Go, because that with which it compares does.
HAS_RACE = [ "$$($(GO) env CGO_ENABLED)" = 1 ]
HAS_COMPARE = (cd bench/compare && $(GO) list -m) >/dev/null 2>&1
# The modules whose dependencies the root must not have: each is in go.work, and a pattern that begins in its folder finds it.
ALL = ./... ./cmd/... ./internal/proof/...
# What of contrib has dependencies of its own is in modules of its own, for the same reason.
CONTRIB = contrib/adapters contrib/otel contrib/prometheus
HAS_CONTRIB = (for m in $(CONTRIB); do (cd $$m && $(GO) list -m) || exit; done) >/dev/null 2>&1
NO_RACE = "NOT COVERED: the tests under the race detector, which needs a C compiler"
NO_COMPARE = "NOT COVERED: bench/compare (redsync on the same masters), which needs Go $$(sed -n 's/^go //p' bench/compare/go.mod)"
NO_CONTRIB = "NOT COVERED: $(CONTRIB), which need Go $$(sed -n 's/^go //p' contrib/adapters/go.mod)"

.PHONY: test server servers test-servers browser plain race portable compare contrib lint vet-all tidy fuzz decoder sim model mutants histories faults soak peers bench quick load
.NOTPARALLEL:

## test: set up, then all tests: plainly (allocations are counted there), under the race detector, and once more without the
## poller, as on systems other than Linux. What this machine could not run is said again at the end
test: server plain race portable compare contrib
	@sh testdata/servers.sh check

## server: install redis-server where that is possible; say plainly what is not covered where it is not
server:
	@sh testdata/servers.sh

## servers: the same, and fetch the servers of other products and versions that this machine's mirror has, without
## installing them: some 65 MB, into a cache (docs/servers.md)
servers: server
	@sh testdata/fetch.sh

# A folder for pictures of the report, to look at after a change: make browser PICTURES=/tmp/report
PICTURES ?=
## browser: install chromium where that is possible, and test loadgen's report in it; with PICTURES=folder keep a page made
## from an example there, and what it looks like: light, dark, on a phone, on paper
browser:
	@sh testdata/browser.sh
	$(if $(PICTURES),mkdir -p '$(abspath $(PICTURES))')
	$(GO) test -count=1 ./cmd/loadgen/internal/report $(if $(PICTURES),-report.pictures='$(abspath $(PICTURES))')

# full or quick
SUITE ?= full

## test-servers: the tests that need real servers, over each server that was fetched and over groups that mix them; prints
## what was covered
test-servers: servers
	@GO="$(GO)" sh testdata/matrix.sh $(SUITE)

# One package at a time: many tests measure, and each package starts servers and processes of its own.
## plain: all tests
plain:
	$(GO) test -count=1 -p 1 -timeout 20m $(ALL)

## race: all tests under the race detector
race:
	@if $(HAS_RACE); then set -x; $(GO) test -count=1 -p 1 -timeout 20m -race $(ALL); else echo $(NO_RACE); fi

## portable: the tests of the library without the poller, where each connection has a reader of its own
portable:
	@race=; if $(HAS_RACE); then race=-race; fi; set -x; \
	$(GO) test -count=1 -p 1 -timeout 20m $$race -tags redmux_portable ./conn ./multiplex ./redlock

## compare: other implementations against the same masters, under the race detector where it is there
compare:
	@race=; if $(HAS_RACE); then race=-race; fi; \
	if $(HAS_COMPARE); then set -x; cd bench/compare && $(GO) test -count=1 -p 1 -timeout 20m $$race ./...; else echo $(NO_COMPARE); fi

## contrib: the adapters with the real gocron and certmagic, and the modules for OpenTelemetry and Prometheus, under the race
## detector where it is there
contrib:
	@race=; if $(HAS_RACE); then race=-race; fi; \
	if $(HAS_CONTRIB); then set -ex; for m in $(CONTRIB); do (cd $$m && $(GO) test -count=1 $$race ./...); done; else echo $(NO_CONTRIB); fi

## lint: format, vet, staticcheck
lint:
	@unformatted=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .); if [ -n "$$unformatted" ]; then echo "not gofmt-ed: $$unformatted"; exit 1; fi
	$(GO) vet $(ALL)
	$(GO) run $(STATICCHECK) $(ALL)
	@if $(HAS_COMPARE); then set -x; cd bench/compare && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./...; fi
	@if $(HAS_CONTRIB); then set -ex; for m in $(CONTRIB); do (cd $$m && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./...); done; fi

## tidy: go mod tidy in each module
tidy:
	@sh testdata/tidy.sh

# The systems of docs/systems.md, besides that of this machine, which lint vets. A cold cache compiles the standard library for
# each of them.
SYSTEMS ?= linux/386 linux/arm linux/arm64 darwin/amd64 darwin/arm64 freebsd/amd64 windows/amd64 windows/arm64
## vet-all: vet of all packages and their tests for each supported system, and of contrib's modules for one of each kind
vet-all:
	@set -e; for s in $(SYSTEMS); do (set -x; CGO_ENABLED=0 GOOS=$${s%/*} GOARCH=$${s#*/} $(GO) vet $(ALL)); done
	@if $(HAS_CONTRIB); then set -e; for s in linux/386 darwin/arm64 windows/amd64; do for m in $(CONTRIB); do \
		(set -x; cd $$m && CGO_ENABLED=0 GOOS=$${s%/*} GOARCH=$${s#*/} $(GO) vet ./...); \
	done; done; else echo $(NO_CONTRIB); fi

# Inputs that reach new code are made smaller before they are kept; without a bound that may take a minute for each.
## fuzz: each fuzz target of every package for FUZZTIME
fuzz:
	@set -e; grep -rl --include='*_test.go' '^func Fuzz' . | grep -v '^\./bench/compare/' | sort | while read -r file; do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$file"); do \
			(set -x; $(GO) test "$$(dirname "$$file")" -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s </dev/null) || exit 1; \
		done; \
	done

INPUTS ?= 1e8
## decoder: so many inputs to the decoder and to a second one, written from the specification, without the coverage engine
decoder:
	$(GO) test ./resp -count=1 -run '^TestDecoderManyInputs$$' -v -timeout $(TIMEOUT) -decoder.inputs=$(INPUTS)

SEEDS ?= 100000
RUNNING_SEEDS ?= 1000
# The first of the running code's seeds; FIRST=$$(date +%s) looks where nobody has looked.
FIRST ?= 1
# How long the tests of the targets that may take hours may take; 0 is for ever.
TIMEOUT ?= 0
## sim: both simulations: SEEDS of the decisions alone, single-threaded, where a seed replays exactly, and RUNNING_SEEDS of the
## whole running code under a simulated clock
sim:
	$(GO) test ./internal/proof/sim/machines -count=1 -run '^TestSim$$' -v -timeout $(TIMEOUT) -sim.seeds=$(SEEDS)
	@out=$$(mktemp) || exit; trap 'rm -f "$$out"' EXIT; \
	(set -x; $(GO) test ./internal/proof/sim/running -count=1 -run '^TestSeeds$$' -v -timeout $(TIMEOUT) -sim.seeds=$(RUNNING_SEEDS) -sim.first=$(FIRST)) >"$$out"; \
	code=$$?; grep -vE '^ *(===|--- PASS)' "$$out"; exit $$code

## model: the rules checked by spin, which is installed if that is possible: all states of small worlds, and a counterexample
## for each rule that is dropped; the table is compared with docs/safety.md. MODEL=quick leaves out the long runs
model:
	@sh testdata/model/run.sh

## mutants: plants each bug of testdata/mutants in a copy of the tree and sees which test finds it; ONLY=regexp takes those of
## such names, TABLE=1 writes docs/mutants.md
mutants: server
	$(GO) run ./internal/proof/mutants $(if $(ONLY),-only '$(ONLY)') $(if $(TABLE),-table)

## histories: runs on real servers under faults, recorded by several processes and checked by intervals and by porcupine
histories: server
	$(GO) test -count=1 -v -run 'OnRealServers' ./internal/proof/history

FOR ?= 2m
## faults: everything that can fail on real servers at once, for FOR; then the times from a heal to a counted vote, and
## memory with a stalled node
faults: server
	$(GO) run ./internal/proof/faults/cmd/faults --for $(FOR)
	$(GO) run ./internal/proof/faults/cmd/faults recovery --repeats 5
	$(GO) run ./internal/proof/faults/cmd/faults stalled --for 10s

## soak: everything at once for FOR (FOR=8h); fails on a slope of memory, goroutines or descriptors, too
soak: server
	$(GO) run ./internal/proof/faults/cmd/faults --soak -q --for $(FOR)

## peers: other implementations under the same faults, for some ten minutes; writes docs/peers.md
peers: server
	cd bench/compare && $(GO) run ./cmd/faults --write

## bench: ours and all peers, alternately, on real servers, for most of an hour; writes bench/RESULTS.md and the README's
## chart. System calls are counted where the user may (root)
bench:
	cd bench/compare && $(GO) run ./cmd/compare --syscalls

## quick: ours and rueidis for some seconds; fails where the engine has become slow
quick:
	cd bench/compare && $(GO) run ./cmd/compare --quick --assert

## load: acquire/release pairs per second of ours and of rueidis
load:
	$(GO) run ./cmd/loadgen -d $(DURATION) --impl redlock,rueidis
