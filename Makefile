# Everything that a contributor or CI runs. `make test` is the one that counts.
GO ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.7.0
FUZZTIME ?= 20s
DURATION ?= 3s

# What this machine's Go can do. The race detector needs cgo, which is off where there is no C compiler. bench/compare is a
# module of its own and wants a newer Go, because that with which it compares does.
HAS_RACE = [ "$$($(GO) env CGO_ENABLED)" = 1 ]
HAS_COMPARE = (cd bench/compare && $(GO) list -m) >/dev/null 2>&1
NO_RACE = "NOT COVERED: the tests under the race detector, which needs a C compiler"
NO_COMPARE = "NOT COVERED: bench/compare (redsync on the same masters), which needs Go $$(sed -n 's/^go //p' bench/compare/go.mod)"

.PHONY: test server servers test-servers plain race portable compare lint fuzz bench quick load
.NOTPARALLEL:

## test: set up, then all tests: plainly (allocations are counted there), under the race detector, and once more without the
## poller, as on systems other than Linux. What this machine could not run is said again at the end
test: server plain race portable compare
	@sh testdata/servers.sh check

## server: install redis-server where that is possible; say plainly what is not covered where it is not
server:
	@sh testdata/servers.sh

## servers: the same, and fetch the servers of other products and versions that this machine's mirror has, without
## installing them: some 65 MB, into a cache (docs/servers.md)
servers: server
	@sh testdata/fetch.sh

# full or quick
SUITE ?= full

## test-servers: the tests that need real servers, over each server that was fetched and over groups that mix them; prints
## what was covered
test-servers: servers
	@GO="$(GO)" sh testdata/matrix.sh $(SUITE)

## plain: all tests
plain:
	$(GO) test -count=1 ./...

## race: all tests under the race detector
race:
	@if $(HAS_RACE); then set -x; $(GO) test -count=1 -race ./...; else echo $(NO_RACE); fi

## portable: the tests of the library without the poller, where each connection has a reader of its own
portable:
	@race=; if $(HAS_RACE); then race=-race; fi; set -x; \
	$(GO) test -count=1 $$race -tags redmux_portable ./conn ./multiplex ./redlock

## compare: other implementations against the same masters, under the race detector where it is there
compare:
	@race=; if $(HAS_RACE); then race=-race; fi; \
	if $(HAS_COMPARE); then set -x; cd bench/compare && $(GO) test -count=1 $$race ./...; else echo $(NO_COMPARE); fi

## lint: format, vet, staticcheck
lint:
	@unformatted=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .); if [ -n "$$unformatted" ]; then echo "not gofmt-ed: $$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	@if $(HAS_COMPARE); then set -x; cd bench/compare && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./...; fi

# Inputs that reach new code are made smaller before they are kept; without a bound that may take a minute for each.
## fuzz: each fuzz target for FUZZTIME, from the tables in testdata/resp
fuzz:
	@set -e; for target in $$(sed -n 's/^func \(Fuzz[A-Za-z]*\).*/\1/p' resp/*_test.go); do \
		(set -x; $(GO) test ./resp -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s); done

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
