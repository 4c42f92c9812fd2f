// Package sim contains what the two simulations of redmux share: their report
// and how it is printed.
//
// Both let clients compete for few locks while a seed decides what goes wrong.
// They differ in depth:
//
//   - proof/sim/machines drives the pure decisions (internal/pure)
//     single-threaded, in a world of its own with messages and clocks. A seed
//     replays exactly, and a hundred thousand seeds take minutes.
//   - proof/sim/running runs the whole code of redlock, multiplex and
//     conn under a simulated clock (testing/synctest) and an in-memory network.
//     A seed fixes the faults and what the clients want, but not the scheduling
//     of goroutines.
//
// `make sim` runs both. docs/safety.md says what they prove, and what not.
package sim
