// Package doctor holds what nodes said against what the algorithm demands of a deployment. It is pure: facts in, findings out.
// It asks nobody, reads no clock and knows nothing of how findings are shown.
//
// A check is a function of the whole deployment that returns what it found, in checks.go's order. A finding says how bad it is,
// what was seen at which nodes, why that matters, and what to change. What could not be asked is no finding: it is told apart,
// as Unknown, lest silence is taken for health.
package doctor
