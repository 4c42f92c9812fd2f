package main

import (
	"bytes"
	"context"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	requestTakes    = 2 * time.Second // bounds reading a request, and writing its answer
	mostProbes      = 64              // connections at a time
	mostHeaderBytes = 4 << 10
)

// serve answers on the listener until the function that it returns is called,
// which waits for the goroutines to end. A connection has one request. What goes
// wrong is said, and ends nothing: the leader works on, and who asks and gets no
// answer takes that for a no.
func (s *standing) serve(listener net.Listener, say func(format string, args ...any)) (end func()) {
	server := &http.Server{
		Handler: s, ReadTimeout: requestTakes, WriteTimeout: 2 * requestTakes, MaxHeaderBytes: mostHeaderBytes,
		ErrorLog: log.New(&complaints{say: say}, "", 0),
	}
	server.SetKeepAlivesEnabled(false)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.watch(ctx) })
	wg.Go(func() { _ = server.Serve(&room{Listener: listener}) }) // returns only after Close: see Accept
	return func() {
		cancel()
		_ = server.Close()
		wg.Wait()
	}
}

// A room is a listener that keeps at most mostProbes connections open. For one
// more, the oldest is closed: a probe asks at once and is gone, so the silent do
// not keep it waiting (R32).
type room struct {
	net.Listener

	mu   sync.Mutex // guards the following
	open []*guest   // the oldest first
}

// Accept waits for a connection. After an error, whatever it is, the server
// accepts again: the sockets of a process may be few for a moment only, and a
// leader that answers no probe would stay without traffic.
func (r *room) Accept() (net.Conn, error) {
	c, err := r.Listener.Accept()
	if err != nil {
		r.keep(0) // the oldest may have what there is too little of
		return nil, transient{err}
	}
	g := &guest{Conn: c, room: r}
	r.mu.Lock()
	r.open = append(r.open, g)
	r.mu.Unlock()
	r.keep(mostProbes)
	return g, nil
}

// keep closes the oldest connection if more than most are open.
func (r *room) keep(most int) {
	var oldest *guest
	r.mu.Lock()
	if len(r.open) > most {
		oldest = r.open[0]
	}
	r.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
}

// A guest is a connection that leaves its room when it is closed.
type guest struct {
	net.Conn
	room *room
}

func (g *guest) Close() error {
	g.room.mu.Lock()
	g.room.open = slices.DeleteFunc(g.room.open, func(other *guest) bool { return other == g })
	g.room.mu.Unlock()
	return g.Conn.Close()
}

// After a transient error, package net/http accepts again. It pauses for up to a
// second.
type transient struct{ error }

func (transient) Temporary() bool { return true }
func (transient) Timeout() bool   { return false }

// complaintsEvery is the least time between two lines of complaints.
const complaintsEvery = time.Minute

// complaints take the log of package net/http. At most a line a minute is
// said, since those that ask can cause lines without end.
type complaints struct {
	say func(format string, args ...any)

	mu   sync.Mutex // guards the following
	last time.Time
}

// Write says the first line of a text.
func (c *complaints) Write(text []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.last.IsZero() || now.Sub(c.last) >= complaintsEvery {
		c.last = now
		line, _, _ := bytes.Cut(text, []byte("\n"))
		c.say("--listen: %s (said once a minute at most; the election goes on)", line)
	}
	return len(text), nil
}
