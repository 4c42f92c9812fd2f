package faults

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	WorkerMain() // never returns in a client process
	os.Exit(m.Run())
}
