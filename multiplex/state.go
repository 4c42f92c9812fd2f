package multiplex

import "github.com/redmux/redmux/internal/pure"

// A State is where a node stands in its life. Its String is its name in lower case.
type State = pure.State

const (
	// Down: no connection; the next attempt waits for its time.
	Down = pure.Down
	// Dialing: one attempt to connect and shake hands is under way.
	Dialing = pure.Dialing
	// Fencing: the commands of the connection before are being made harmless (R8).
	Fencing = pure.Fencing
	// Paying: releases that this node still owes are executed first (R8).
	Paying = pure.Paying
	// Up: the node gets every command, and its votes count.
	Up = pure.Up
	// Shed: its connection was broken from here (R26); it gets no new commands.
	Shed = pure.Shed
	// Stopped: the group was closed.
	Stopped = pure.Stopped
)
