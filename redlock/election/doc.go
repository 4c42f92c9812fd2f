// Package election elects a leader among processes: a lock of package redlock
// that renews itself, and a function that runs while this process holds it.
//
//	candidate, err := election.New(client, "billing", election.Options{})
//	err = candidate.Run(ctx, func(ctx context.Context, term uint64) error { … })
//
// [Election.Run] campaigns, calls the function while this process leads,
// releases the lock when the function has returned, and campaigns again. The
// term is the lock's fencing number. [Leader] and [Watch] tell any client who
// leads. Errors that are not named here are those of package redlock.
package election
