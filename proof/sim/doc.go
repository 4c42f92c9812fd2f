// Package sim simulates the whole running code of redlock, multiplex and
// conn: several clients use redlock's public API over a network and masters in
// memory, on a simulated clock (testing/synctest). It has tests only.
//
// Some seeds, and a check that broken variants are found; more seeds; one of
// them again:
//
//	go test ./proof/sim
//	go test ./proof/sim -run TestSeeds -sim.seeds=1000 -v
//	go test ./proof/sim -run TestSeeds -sim.seed=7 -v
//
// A seed fixes the deployment, the faults with their times, and what the
// clients want. It does not fix the scheduling of goroutines, so a seed that
// failed may have to run several times. As in swarm testing, each seed draws
// some of the kinds of faults, and has more of these.
//
//	seeds_test      the seeds, what happened in all of them, and what was violated
//	draw_test       what a seed draws: masters, clocks, clients, TTLs, kinds of faults
//	world_test      one seed in its bubble: from the first connection to the last
//	faults_test     the kinds of faults, and how each is mended
//	overlap_test    clients that name only some of the masters, and sets that overlap (R29, R30)
//	process_test    a client from its beginning to its close or crash
//	worker_test     what is done with locks and holds; what holds for each call (R4, R12)
//	lockers_test    fencing numbers and their order, locks on several resources, and of other kinds
//	referee_test    who holds what: exclusion, R4 by the masters' keys, R13
//	tokens_test     what the masters saw of each token: R3, R7, R8
//	settle_test     what is true when the faults are over (R26), and at the end (R28)
//	weakened_test   that all of these find what they should
//
// No node fails over here. What the checkers know of a master's keys, tokens,
// seals and health would have to be known of each server behind it, in all of
// them. So that has a simulated trial of its own, which judges exclusion alone
// (redlock, TestFailoverKeepsExclusionInSimulatedTime_R23).
//
// The package knows redlock only from outside. Each pair of a client and a
// master has a lane of its own, so clients differ in which masters they reach,
// and in the order in which their commands arrive.
package sim
