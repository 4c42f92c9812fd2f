package redistest

// File returns the path of the file that sets the server's clock.
func (c *Clock) File() string { return c.file }

// Held returns how many bytes are in flight or held back, over all connections.
func (l *Link) Held(d Direction) (n int) {
	for _, p := range l.pipes(d) {
		p.mu.Lock()
		n += p.flying + len(p.inbox)
		p.mu.Unlock()
	}
	return n
}

// Environ returns the environment with which the server starts.
func (c *Clock) Environ() []string { return c.environ() }
