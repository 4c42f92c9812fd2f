//go:build race

package multiplex

// With poisoning, buffers given back to a pool are overwritten. That exposes
// late reads (R20).
const poisoning = true

func (r *round) poison() {
	spoil(r.command[:cap(r.command)])
	r.at, r.ttl = -1, -1
}

func spoil(b []byte) {
	for i := range b {
		b[i] = 0xDB
	}
}
