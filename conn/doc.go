// Package conn is one connection to one Redis or Valkey node: it dials, shakes
// hands, writes bytes without ever waiting, and hands out replies in the order
// in which they came.
//
// It knows nothing of rounds, quorums, timeouts of votes or locks. Which reply
// belongs to which command is the owner's business (the package multiplex); this
// package promises only that no byte is lost, doubled or skipped while the
// connection lives, and that a connection that is no longer sound is dead: every
// method then returns the first cause (R16).
//
// # Who owns what
//
//	Send, Expect    one caller at a time; neither waits, and Send does not keep its argument
//	Fill, Next   the owner of the read side, one goroutine; Fill is the only method that waits for the node
//	Due, SetLimits  the same owner
//	FillNow      the same owner, in place of Fill, when a Poller has the connection
//	Exchange     Send, Fill and Next, while nothing else is in flight
//	RoundTrip    the owner of the read side
//	Close        the owner of the read side, at the end
//	Break, Shutdown, Err, Unread, Server, ServerError    any goroutine
//
// A connection has one goroutine of its own, the writer. It sleeps until Send
// leaves something over: what a socket's buffer did not take, or everything where
// a write may block (TLS, and any net.Conn that a NetDial returned). What it has
// not written yet is the backlog, which is bounded (R26): a node that does not
// read for so long is stalled, and its connection is broken with [ErrStalled].
//
// # Breaking
//
// Break aborts rather than closes: where there is a TCP socket below, also below
// TLS, the peer is sent an RST, so that what our kernel has not got acknowledged
// is thrown away (R8). Nothing in it waits for the peer. It wakes a blocked Fill
// and a blocked writer.
//
// # Polling
//
// On Linux a [Poller] can take over plain TCP and unix connections: one goroutine
// at a time then waits for all of them, and reads each with FillNow where Fill
// would wait. It has an epoll instance of its own, nested in that of Go's runtime.
// What it changes is the link, the small interface through which a Conn reads and
// writes; all else stays as it is. Elsewhere, and with the build tag
// redmux_portable, NewPoller fails and every connection is read with Fill.
package conn
