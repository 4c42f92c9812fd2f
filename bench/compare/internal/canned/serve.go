package canned

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync/atomic"

	"github.com/redmux/redmux/resp"
)

// work is the life of the process: it listens, says where, and serves until its standard input ends. The parent holds the
// other end of that and writes nothing, so that the kernel itself reports the parent's death, whatever it died of.
func work(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return fmt.Errorf("%s: %w", jobVariable, err)
	}
	// A Ctrl-C in the terminal is for the parent, who may still want to release what it holds.
	signal.Ignore(os.Interrupt)
	defer os.RemoveAll(j.Dir)
	urls := make([]string, j.N)
	for i := range urls {
		l, err := j.listen(i)
		if err != nil {
			return err
		}
		n := &endpoint{runID: fmt.Sprintf("%040x", i+1), addr: l.Addr().String()}
		// It listens already, so whoever reads the line below can connect at once.
		urls[i] = j.url(l.Addr())
		go n.accept(l)
	}
	line, err := json.Marshal(urls)
	if err != nil {
		return err
	}
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // however it ends, it has ended
	return nil
}

// listen lets the kernel choose the port: no other process can have it then.
func (j *job) listen(i int) (net.Listener, error) {
	if j.Network == "unix" {
		return net.Listen("unix", j.socket(i))
	}
	return net.Listen("tcp", "127.0.0.1:0")
}

// url is the address in the form that redlock and its peers read.
func (j *job) url(addr net.Addr) string {
	if j.Network == "unix" {
		return "unix://" + addr.String()
	}
	return "redis://" + addr.String()
}

// endpoint is what clients take for one master. It has a run id of its own, as a client may refuse masters that turn out to
// be one and the same, and ids for its clients, which fence connections by them.
type endpoint struct {
	runID, addr string
	clients     atomic.Int64 // the id of the last one
}

// accept gives each connection a goroutine. It ends with the process only: the listeners are never closed.
func (e *endpoint) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, "canned:", err)
			return
		}
		go e.serve(conn)
	}
}

// limits are generous for a script's text and for a merged release of many keys, and small for a stranger's bytes.
var limits = resp.Limits{Line: 64, Bulk: 256 << 10, Elements: 4096, Depth: 2, Size: 1 << 20}

// serve answers until the connection ends or is no client's. What one read brought is answered with one write, as a real
// server does, which so gives a client the batches that it would get there. In steady state nothing is allocated: the
// reader and the replies keep their buffers.
func (e *endpoint) serve(conn net.Conn) {
	defer conn.Close()
	s := session{endpoint: e, id: e.clients.Add(1), peer: conn.RemoteAddr().String(), protocol: 2}
	requests := resp.NewReader(limits)
	var replies []byte
	for {
		if _, err := requests.Fill(conn); err != nil {
			return
		}
		replies = replies[:0]
		// A command that is not complete waits in the reader for the next read.
		sound := true
		for sound {
			v, ok, err := requests.Next()
			if err == nil && !ok {
				break
			}
			if sound = err == nil; sound {
				replies, sound = s.answer(replies, v)
			}
		}
		// What came before the garbage was sound, and is answered.
		if len(replies) > 0 {
			if _, err := conn.Write(replies); err != nil {
				return
			}
		}
		if !sound {
			return
		}
	}
}
