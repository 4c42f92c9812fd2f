package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports below the range from which kernels choose for clients (32768 and up on
// Linux, 49152 on others): a port of that range could be given to some client
// while its server is down, and a client that redials the dead server from this
// very port would be connected to itself.
const firstPort, lastPort = 20000, 32000

// Each process takes its ports from a block of its own, so that the port of a
// server that is down, or of a proxy that refuses, is not given to another
// test's server meanwhile: the one that waits for it would wait for as long as
// that one lives. The block is its process's for as long as it listens on the
// block's first port, which is to the process's end.
const blockSize = 100

var block struct {
	mu    sync.Mutex   // guards the following
	mark  net.Listener // on the first port; nil before a block was taken
	first int
	next  int // each port comes before one comes again, so that one that was freed just now is the last to be taken
}

// claimBlock takes the block, if that was not done before.
func claimBlock() {
	block.mu.Lock()
	defer block.mu.Unlock()
	claimBlockLocked()
}

func claimBlockLocked() {
	for range 100 {
		if block.mark != nil {
			return
		}
		first := firstPort + blockSize*rand.IntN((lastPort-firstPort)/blockSize)
		if l, err := listenAt(first); err == nil {
			block.mark, block.first = l, first
		}
	}
}

// FreePort returns a port that was free a moment ago, and that no other test
// gets soon.
func FreePort() (int, error) {
	l, err := listenLow()
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// listenLow listens on a free port of the block, or where there is none on any
// low one.
func listenLow() (net.Listener, error) {
	block.mu.Lock()
	defer block.mu.Unlock()
	claimBlockLocked()
	var last error
	for try := range 2 * blockSize {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if block.mark != nil && try < blockSize {
			block.next = block.next%(blockSize-1) + 1
			port = block.first + block.next
		}
		l, err := listenAt(port)
		if err == nil {
			return l, nil
		}
		last = err
	}
	return nil, fmt.Errorf("redistest: no free port: %w", last)
}

func listenAt(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}
