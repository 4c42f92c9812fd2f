//go:build !linux

package redistest

import "errors"

const canPreload = false

func mapShared(string, int) ([]byte, error) { return nil, errors.ErrUnsupported }
func unmapShared([]byte) error              { return errors.ErrUnsupported }
func steadyNow() int64                      { return 0 }
func machineWall() int64                    { return 0 }
