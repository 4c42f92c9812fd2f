// Package conn provides connections to Redis and Valkey nodes, one node each.
// It dials, shakes hands, writes bytes without ever waiting, and returns
// replies in the order in which they came.
//
// It knows nothing of rounds, quorums, timeouts of votes or locks. Its user
// (the package multiplex) keeps track of the command to each reply. This
// package promises only two things. No byte is lost, doubled or skipped while
// the connection lives. And a connection is never used after a fault: every
// method then returns the first cause (R16). Next returns pushes as it returns
// replies: the user decides whether a push was requested.
//
// R1 to R34 in these comments are the rules of docs/internals/rules.md
// (https://github.com/redmux/redmux/blob/main/docs/internals/rules.md).
//
// # Which goroutine calls what
//
// A connection has a write side and a read side. Each belongs to one goroutine
// at a time; both may be the same one.
//
//	Send, Expect            the write side; neither waits
//	Fill, Next              the read side; only Fill waits for the node
//	Due, SetLimits          the read side
//	Follow, Doubt           the read side; neither waits
//	Exchange, RoundTrip     the read side; Exchange also takes the write side
//	Close                   the read side, as its last call
//	Break, Shutdown         any goroutine
//	Err, Unread             any goroutine
//	Server, ServerError     any goroutine
//	AppendAuth              any goroutine
//
// A connection has one goroutine of its own, the writer. It sleeps until Send
// leaves bytes to it: those too many for a socket's buffer, or all of them
// where a write may block (TLS without polling, and any net.Conn from a
// NetDial). The bytes it has not written yet are the backlog. That is bounded
// (R26): a Send that finds it full breaks the connection with [ErrStalled].
// What one Send queues may exceed the bound. A connection that is followed (see
// Conn.Follow) has two more: one asks the seeds of its endpoint in case of
// doubt, and the other listens to a sentinel. Close ends them.
//
// # How a connection ends
//
// Break aborts: where there is a TCP socket below, also below TLS, the peer
// gets an RST, and what it has not acknowledged is thrown away (R8). Shutdown
// ends the connection without an abort. Both wake a blocked Fill and a blocked
// writer, wait for nothing, and may be called by any goroutine.
//
// Neither frees the descriptor. Close does, after the writer has ended; the
// owner of the read side must call it once it has stopped reading. A Poller
// never closes a connection's descriptor. Close leaves that to the last call
// with a use of it, as long as a Poller has the connection
// (descriptor_linux.go).
//
// # Polling
//
// On Linux a [Poller] can take over TCP and unix connections, with TLS or
// without. One goroutine at a time then waits for all of them, and reads each
// with Poller.Fill in place of Conn.Fill. Only the link changes, the small
// interface below a Conn. TLS then runs between the Conn and its link
// (transport_linux.go), on the goroutines that call Fill and Send. On other
// systems, and with the build tag redmux_portable, NewPoller fails and every
// connection is read with Conn.Fill.
//
// System calls are made with package syscall: golang.org/x/sys would be the
// library's second dependency.
package conn
