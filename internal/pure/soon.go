package pure

import "time"

// Soon is the least that a timer is set to, here and in tests: max(pure.Soon, d).
//
// In a bubble of testing/synctest, a timer that is due at once is run by the goroutine that sets it, or that receives from it,
// and all of them use one state of the race detector then. Two at a time ruin it: "ThreadSanitizer: CHECK failed", or a
// segmentation fault, in whatever runs beside them (go.dev/issue/78156, seen with Go 1.26.8). A timer that lies ahead is run by
// the bubble itself, one after another. Whoever tests a program that holds locks, with redlocktest and -race, would meet it.
const Soon time.Duration = 1
