package redistest

// File is the one that the server is told by.
func (c *Clock) File() string { return c.file }

// Held is how many bytes are under way, or held back, over all connections.
func (l *Link) Held(d Direction) (n int) {
	for _, p := range l.pipes(d) {
		p.mu.Lock()
		n += p.flying + len(p.inbox)
		p.mu.Unlock()
	}
	return n
}

// Environ is what the server is started with.
func (c *Clock) Environ() []string { return c.environ() }
