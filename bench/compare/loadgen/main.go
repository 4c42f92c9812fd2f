// Command loadgen is cmd/loadgen with other libraries to name in --impl. It
// needs a newer Go and more modules, so it is not installed but run from here:
//
//	go run ./loadgen --impl redlock,redsync,go-redis,rueidis
package main

import (
	"os"

	"github.com/redmux/redmux/bench/compare/peers"
	"github.com/redmux/redmux/cmd/loadgen/load"
)

func main() { os.Exit(load.Main(peers.Implementations()...)) }
