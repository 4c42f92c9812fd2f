package redistest

import (
	"io"
	"net"
	"sync"
	"time"

	"github.com/redmux/redmux/resp"
)

// session is one client of a Node. Its reader turns bytes into pending
// commands, the node's executor turns these into outputs, its writer writes
// them.
//
// A client that closed stays in the node's list until what it had sent is
// executed: a server that was stopped finds the commands in the socket's buffer
// before it finds out that the other end is gone (R8).
type session struct {
	node *Node
	conn net.Conn
	id   int
	born time.Time

	// Owned by the node's executor.
	proto  int
	db     int
	authed bool
	name   string
	// As CLIENT TRACKING and CLIENT CACHING left them.
	tracks, caching bool

	// Guarded by the node's mu.
	ready    sync.Cond // outputs, room, or the end
	pending  []command
	queued   int  // bytes of pending
	busy     bool // a command of it is being executed
	eof      bool // the reader has ended
	closing  bool // close behind the reply
	dead     bool // killed: nothing more is executed or written
	farewell []byte
	outputs  []output
}

// command is one that was received; due is when it may be executed.
type command struct {
	args []string
	size int
	seq  int
	due  time.Time
}

// output is bytes to write, or a function that writes them, or the end.
type output struct {
	bytes  []byte
	stream func(io.Writer) error
	last   bool
}

// As much as two socket buffers hold: then a stopped node's peer has to wait.
const maxQueued = 512 << 10

// accept makes a client of a connection. Its id is the next one since the
// start, which the fence of R8 has to reckon with after a restart.
func (n *Node) accept(conn net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		conn.Close()
		return
	}
	n.nextID++
	n.connects++
	s := &session{node: n, conn: conn, id: n.nextID, born: time.Now(), proto: 2,
		authed: n.password == ""}
	s.ready.L = &n.mu
	n.sessions[s.id] = s
	n.conns[s] = struct{}{}
	n.wg.Go(s.read)
	n.wg.Go(s.write)
}

// read receives commands until the connection ends.
func (s *session) read() {
	r := resp.NewReader(resp.Limits{})
	for {
		v, ok, err := r.Next()
		switch {
		case err != nil || ok && !isCommand(v):
			s.end("-ERR Protocol error\r\n")
			return
		case ok:
			if !s.push(v) {
				return
			}
			continue
		}
		if _, err := r.Fill(s.conn); err != nil {
			s.end("")
			return
		}
	}
}

// isCommand: a client sends arrays. Inline commands are not understood.
func isCommand(v resp.Value) bool {
	return v.Type() == resp.Array && v.Len() > 0
}

// push adds a command, waiting while there are too many.
func (s *session) push(v resp.Value) bool {
	n := s.node
	n.mu.Lock()
	defer n.mu.Unlock()
	for s.queued > maxQueued && !s.dead {
		s.ready.Wait()
	}
	if s.dead {
		return false
	}
	args := make([]string, 0, v.Len())
	for e := range v.Elements() {
		args = append(args, string(e.Bytes()))
	}
	n.seq++
	c := command{args: args, size: len(v.Raw()), seq: n.seq, due: time.Now().Add(n.delay(args))}
	if k := len(s.pending); k > 0 && s.pending[k-1].due.After(c.due) {
		c.due = s.pending[k-1].due
	}
	s.pending = append(s.pending, c)
	s.queued += c.size
	n.work.Signal()
	return true
}

// end is called by the reader when nothing more will come.
func (s *session) end(farewell string) {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	s.eof, s.farewell = true, []byte(farewell)
	s.leave()
}

// The following need the node's lock.

// pop takes the first command for execution.
func (s *session) pop() []string {
	c := s.pending[0]
	s.pending = s.pending[1:]
	s.queued -= c.size
	s.busy = true
	s.ready.Broadcast()
	return c.args
}

// reply ends the execution that pop began.
func (s *session) reply(out output) {
	s.busy = false
	if s.dead {
		return
	}
	out.last = s.closing
	s.outputs = append(s.outputs, out)
	if s.closing {
		s.pending = nil
		s.forget()
	}
	s.ready.Broadcast()
	s.leave()
}

// leave removes a client that has ended and has nothing left to execute.
func (s *session) leave() {
	if !s.eof || s.busy || s.dead || s.closing || len(s.pending) > 0 {
		return
	}
	s.forget()
	s.outputs = append(s.outputs, output{bytes: s.farewell, last: true})
	s.ready.Broadcast()
}

// drop resets the connection and leaves what was received to be executed.
func (s *session) drop() { abort(s.conn) }

// kill ends the client together with everything it has sent.
func (n *Node) kill(s *session) {
	s.dead = true
	s.pending, s.outputs, s.queued = nil, nil, 0
	s.conn.Close()
	s.forget()
	s.ready.Broadcast()
}

// forget takes the client off the list. After a restart its id may be
// another's.
func (s *session) forget() {
	if s.node.sessions[s.id] == s {
		delete(s.node.sessions, s.id)
	}
}

// write writes the outputs. If the peer is gone, execution goes on, and only
// the replies are lost.
func (s *session) write() {
	defer s.release()
	for {
		outs := s.take()
		if outs == nil {
			return
		}
		if s.writeAll(outs) {
			return
		}
	}
}

// writeAll reports whether it came to the last output. Replies that gathered go
// out in one write.
func (s *session) writeAll(outs []output) (last bool) {
	var batch []byte
	for _, out := range outs {
		if out.stream != nil {
			s.conn.Write(batch)
			batch = nil
			out.stream(s.conn)
		}
		batch = append(batch, out.bytes...)
		if last = out.last; last {
			break
		}
	}
	if len(batch) > 0 {
		s.conn.Write(batch)
	}
	return last
}

// release is the end of the connection.
func (s *session) release() {
	s.conn.Close()
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	delete(s.node.conns, s)
}

// take waits for outputs; nil is the end.
func (s *session) take() []output {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	for len(s.outputs) == 0 && !s.dead {
		s.ready.Wait()
	}
	outs := s.outputs
	s.outputs = nil
	return outs
}
