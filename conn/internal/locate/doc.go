// Package locate reads what sentinels and servers of a cluster answer to the
// question where a node's present server is, and decides whom to believe.
//
// It knows nothing of connections. Answers come from the network, so every
// function takes any reply, and returns an address only if a URL could have
// named it. The word of each seed is one vote (R33): a seed that lies or is
// outdated leads to a server that does not say that it is the master, and costs
// time.
package locate
