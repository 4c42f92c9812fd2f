// Package adapters tests contrib/gocronlock and contrib/certmagiclock against the real gocron and certmagic. It is a module of
// its own, so that what these depend on reaches nobody who imports redmux.
package adapters
