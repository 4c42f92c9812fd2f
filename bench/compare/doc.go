// Package compare sets this module beside other implementations of the algorithm. It is a module of its own, so that what
// they depend on reaches nobody who imports redlock. It may use the root's internal packages, since its path lies below
// the root's.
package compare
