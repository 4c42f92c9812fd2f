//go:build unix

// Command compare measures a case of this module beside other libraries: some
// runs of loadgen, whose figures it prints and can keep in a file.
//
//	go run . quick
//	go run . hotkey ../results.csv
package main

import (
	"os"

	"github.com/redmux/redmux/bench/compare/cases"
	"github.com/redmux/redmux/bench/compare/peers"
)

func main() { os.Exit(cases.Main(cases.All, peers.Implementations()...)) }
