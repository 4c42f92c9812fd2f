//go:build !unix

package meter

import "time"

// SelfCPU is the processor time that this process has used since it began. It is 0, as that is not known on this system.
func SelfCPU() time.Duration { return 0 }
