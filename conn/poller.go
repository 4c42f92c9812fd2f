package conn

// An Event is what a [Poller] found out about one of its connections.
type Event struct {
	// ID is the connection's, as given to Poller.Add.
	ID int
	// Readable reports that Poller.Fill will find bytes, the end of the
	// connection, or its error.
	Readable bool
	// Writable reports that the socket has room for the backlog again;
	// Poller.Resume lets the writer continue.
	Writable bool
}
