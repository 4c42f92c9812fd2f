// Package inside is what the packages beside package redlock need of it, and
// its users do not. Package redlock sets the variables when it is loaded. They
// take its types as any, since it imports this package.
package inside

import (
	"context"
	"time"

	"github.com/redmux/redmux/multiplex"
)

// A Client is the inside of a *redlock.Client.
type Client interface {
	// Called panics as a method of the client does for a nil context.
	Called(ctx context.Context)
	// Group returns the client's group, which only the client closes.
	Group() *multiplex.Group
	// Config returns the redlock.Config, with its defaults.
	Config() any
	// CheckLock returns the error of an attempt that cannot be made: for the
	// resource or the TTL.
	CheckLock(resource string, ttl time.Duration) error
	// Sleep waits for a time, or until the client takes no new locks. If ctx
	// ends first, the error is a *redlock.CancelledError.
	Sleep(ctx context.Context, d time.Duration) error
	// Patience returns what a call that waits for a quorum calls with the error
	// of each attempt: it reports to the log, and returns an error if waiting
	// cannot help (R31).
	Patience() func(err error) error
	// Under reports whether ctx comes from a hold.
	Under(ctx context.Context, hold any) bool
	// Elected and Deposed count a term that begins, and one that was lost.
	Elected()
	Deposed()
	// ReportLapse reports to the log why Init waits.
	ReportLapse(left time.Duration)
}

var (
	// Of returns the inside of a *redlock.Client. It panics as the methods of a
	// nil or zero Client do.
	Of func(client any) Client
	// Open is redlock.New for Init: the *redlock.Client opens a deployment.
	Open func(ctx context.Context, config any, replace []string) (client any, err error)

	// During returns ctx with a cancellation that follows a *redlock.Hold. end
	// releases both.
	During func(ctx context.Context, hold any) (run context.Context, end func())
	// Close lets no further function enter a hold, and waits for those that
	// have entered.
	Close func(hold any)

	// CheckResource returns the error for a name that no resource has.
	CheckResource func(resource string) error
	// Named adds the resource to the error of a call.
	Named func(resource string, err error) error
	// Cancelled returns the error of a call whose context has ended.
	Cancelled func(ctx context.Context, last error) error
	// NoQuorum returns redlock.ErrNoQuorum with each node's cause.
	NoQuorum func(nodes *multiplex.UndecidedError) error
	// Translate returns the error of package redlock for one of the group.
	Translate func(err error) error
	// Joined returns the error of Do.
	Joined func(resource string, own, cause, released error) error
)
