//go:build !unix

package window

import "time"

func selfCPU() time.Duration { return 0 }
