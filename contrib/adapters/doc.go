// Package adapters tests contrib/gocronlock and contrib/certmagiclock with the
// real gocron and certmagic, and contrib/fencing with real databases. It is a
// module of its own, so that programs which import redmux do not get the
// dependencies of these.
package adapters
