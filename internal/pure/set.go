package pure

import "math/bits"

// A Set is a set of nodes: bit i stands for node i.
type Set uint16

// All returns the set of all nodes of a group of n.
func All(n int) Set { return Set(1<<uint(n) - 1) }

// SetOf returns the set of one node.
func SetOf(i int) Set { return 1 << uint(i) }

// Has reports whether node i is in the set.
func (s Set) Has(i int) bool { return s>>uint(i)&1 != 0 }

// Len returns the number of nodes in the set.
func (s Set) Len() int { return bits.OnesCount16(uint16(s)) }

// Add returns the set with node i.
func (s Set) Add(i int) Set { return s | SetOf(i) }

// Without returns the nodes of the set that are not in t.
func (s Set) Without(t Set) Set { return s &^ t }
