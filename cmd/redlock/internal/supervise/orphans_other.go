//go:build !linux

package supervise

// own is of use on Linux only.
var own children

type children struct{}

func (children) start(do func() (pid int, err error)) error {
	_, err := do()
	return err
}

func (children) forget(int) {}

// ReapOrphans does nothing: a process is left no children that are not its own,
// unless it is init.
func ReapOrphans() {}
