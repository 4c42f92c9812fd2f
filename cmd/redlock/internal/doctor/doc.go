// Package doctor compares what nodes said with what the algorithm demands of a
// deployment. It is pure: facts in, findings out. It asks no node, reads no
// clock, and does not know how findings are shown.
//
// A check is a function of the whole deployment that returns what it found;
// doctor.go lists them in order. A finding says how bad it is, what was seen at
// which nodes, why that matters, and what to change. What could not be asked is
// not a finding. It is listed as Unknown, so that silence is not taken for
// health.
package doctor
