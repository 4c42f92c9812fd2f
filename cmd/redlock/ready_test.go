package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
)

// What the missing nodes lack decides whether -n goes on, and whether others
// wait for longer than --timeout.
func TestWhatWaitingIsFor_R31(t *testing.T) {
	connecting, down := multiplex.ErrConnecting, redlock.ErrNodeDown
	young, unopened := error(&redlock.QuarantineError{Left: 20, Why: "first seen"}), redlock.ErrUnopened
	for _, c := range []struct {
		missing   []error // of three nodes
		none      bool    // -n ends
		willCount bool
	}{
		{[]error{down}, false, true},
		{[]error{down, down}, true, false},
		{[]error{connecting, connecting, connecting}, false, false},
		{[]error{connecting, connecting, down}, false, false},
		{[]error{young, young, young}, true, true},
		{[]error{young, young}, true, true},
		{[]error{young, down}, true, true},
		{[]error{young, down, down}, true, false},
		{[]error{unopened, unopened, unopened}, false, false},
		{[]error{unopened, unopened, connecting}, false, false},
		{[]error{unopened, unopened, down}, true, false},
		{[]error{unopened, down}, false, false},
		{[]error{redlock.ErrDeployment, redlock.ErrDeployment, redlock.ErrDeployment}, true, false},
	} {
		undecided := &redlock.UndecidedError{Of: 3}
		for i, err := range c.missing {
			undecided.Nodes = append(undecided.Nodes, &redlock.NodeError{Node: i, Err: fmt.Errorf("here: %w", err)})
		}
		err := fmt.Errorf("ready: %w", undecided)
		assert.Equal(t, c.none, noQuorumLeft(err), c.missing)
		assert.Equal(t, c.willCount, willCount(err), c.missing)
	}
	// Half of an even number of nodes is no quorum.
	half := &redlock.UndecidedError{Of: 4, Nodes: []*redlock.NodeError{{Err: down}, {Err: down}}}
	assert.True(t, noQuorumLeft(half))
	assert.False(t, willCount(half))
	assert.False(t, noQuorumLeft(redlock.ErrClosed) || willCount(redlock.ErrClosed))
}
