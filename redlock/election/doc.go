// Package election elects a leader among processes: with a lock of package
// redlock, renewed, and a function under it.
//
//	candidate, err := election.New(client, "billing", election.Options{})
//	err = candidate.Run(ctx, func(ctx context.Context, term uint64) error { … })
//
// [Election.Run] campaigns, calls the function once this process leads,
// releases the lock after the function's return, and campaigns again. The term
// is the lock's fencing number. [Leader] and [Watch] tell any client who leads.
// Other errors are those of package redlock.
package election
