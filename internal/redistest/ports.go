package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports below the range from which kernels choose for clients (32768 and up on
// Linux, 49152 on others): a port of that range could be given to some client
// while its server is down, and a client that redials the dead server from this
// very port would be connected to itself.
const firstPort, lastPort = 20000, 32000

// freePort returns a port on which nobody listened a moment ago.
func freePort() (int, error) {
	l, err := listenLow()
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// listenLow listens on a random free port.
func listenLow() (net.Listener, error) {
	var last error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return l, nil
		}
		last = err
	}
	return nil, fmt.Errorf("redistest: no free port: %w", last)
}
