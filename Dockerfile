# The command line redlock, alone: a static program that runs as user nobody.
#
#     docker build -t redlock .
#     docker run --rm redlock status --nodes redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3 invoice:7
FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags='-s -w' -o /redlock ./cmd/redlock

FROM scratch
# The certificates that TLS to the masters trusts by default.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /redlock /redlock
USER 65534:65534
ENTRYPOINT ["/redlock"]
