// Package adapters tests contrib/gocronlock, contrib/cronlock and
// contrib/certmagiclock with the real gocron, cron and certmagic, contrib/fencing
// with real databases, and the code of docs/recipes.md. It is a module of its
// own, so that programs which import redmux do not get the dependencies of
// these.
package adapters
