# Everything that a contributor or CI runs. `make test` is the one that counts.
GO ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.7.0
FUZZTIME ?= 20s
DURATION ?= 3s

.PHONY: test servers race lint fuzz bench load

## test: set up, then all tests twice: plainly (allocations are counted there) and under the race detector
test: servers
	$(GO) test -count=1 ./...
	$(GO) test -count=1 -race ./...
	cd bench/compare && $(GO) test -count=1 ./...

## servers: install redis-server where that is possible; say plainly what is not covered where it is not
servers:
	@sh testdata/servers.sh

## race: the tests under the race detector only
race:
	$(GO) test -count=1 -race ./...

## lint: format, vet, staticcheck
lint:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not gofmt-ed: $$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

## fuzz: each fuzz target for FUZZTIME, from the tables in testdata/resp
fuzz:
	@set -e; for target in $$(grep -ho '^func Fuzz[A-Za-z]*' resp/*_test.go | cut -d' ' -f2); do \
		$(GO) test ./resp -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME); done

## bench: ours and rueidis, alternately, on real servers
bench:
	$(GO) test -run '^$$' -bench . ./bench

## load: acquire/release pairs per second of ours and of rueidis
load:
	$(GO) run ./cmd/loadgen -d $(DURATION) --impl redlock,rueidis
