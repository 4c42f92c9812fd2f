package redlock_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// inTurn listens on an address that leads to each of the servers in turn.
func inTurn(t *testing.T, servers []*redistest.Server) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var pipes sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); pipes.Wait() })
	var dials atomic.Int64
	pipes.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", servers[dials.Add(1)%int64(len(servers))].TCPAddr())
			if err != nil {
				_ = near.Close()
				continue
			}
			pipes.Go(func() { _, _ = io.Copy(far, near); _ = far.Close() })
			pipes.Go(func() { _, _ = io.Copy(near, far); _ = near.Close() })
		}
	})
	return l.Addr().String()
}

// A records holds what a client logged.
type records struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *records) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *records) count(part string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Count(r.text.String(), part)
}

// One address that leads to two servers in turn is warned about in Nodes, and
// once in the log; one that leads to one server is not (R22).
func TestFaultOneNameOfTwoServers_R22(t *testing.T) {
	f := newFleet(t, 2, redistest.OverTCP)
	for several, addr := range map[bool]string{true: inTurn(t, f.servers), false: inTurn(t, f.servers[:1])} {
		var log records
		c := f.client(redlock.Config{Nodes: redlock.Nodes("redis://" + addr), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		warned := func() error {
			if w := c.Nodes()[0].Warnings; len(w) != 1 || !strings.Contains(w[0], "several servers") || log.count("several servers") != 1 {
				return errors.New("no warning: " + strings.Join(w, ", "))
			}
			return nil
		}
		if several {
			eventually(t, inTheEnd, warned)
			if n := log.count("node is up"); n != 1 {
				t.Error(n, " records that the node is up")
			}
			continue
		}
		time.Sleep(200 * time.Millisecond)
		if warned() == nil || len(c.Nodes()[0].Warnings) > 0 {
			t.Error("one server is warned about: ", c.Nodes()[0].Warnings)
		}
	}
}

// A master of no deployment as the third of a client whose other two belong to
// one does not count, however long it is watched, and Nodes and the log say why
// (R30).
func TestFaultMasterOfNoDeployment_R30(t *testing.T) {
	f := newFleet(t, 4)
	ctx, cancel := context.WithTimeout(context.Background(), inTheEnd)
	defer cancel()
	if err := f.client(f.some([]int{0, 1, 2})).Ready(ctx); err != nil {
		t.Fatal(err)
	}
	var log records
	config := f.some([]int{0, 1, 3})
	config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	c := f.client(config)
	if err := c.Ready(ctx); err != nil { // by the two members
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // longer than MaxTTL
	const says = "belongs to no deployment"
	if n := c.Nodes()[2]; !n.Quarantined || !strings.Contains(n.QuarantineWhy, says) {
		t.Errorf("the stranger counts: %v, %q", n.Quarantined, n.QuarantineWhy)
	}
	if log.count("level=WARN") == 0 || log.count(says) == 0 {
		t.Error("the log does not name it")
	}
	if err := f.servers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := c.Acquire(ctx, "r", 500*time.Millisecond); !errors.Is(err, redlock.ErrDeployment) || !strings.Contains(err.Error(), says) {
		t.Error("with a member down: ", err)
	}
}
