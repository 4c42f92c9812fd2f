package pure

import "time"

// Soon is the shortest time that a timer is set to, in the library and in
// tests: max(pure.Soon, d).
//
// In a bubble of testing/synctest, a timer due at once is run by the goroutine
// that sets it or receives from it. All such goroutines share one state of the
// race detector. Two at a time corrupt it: "ThreadSanitizer: CHECK failed", or
// a segmentation fault elsewhere (go.dev/issue/78156, seen with Go 1.26.8). The
// bubble itself runs timers that lie ahead, one after another. Tests of
// programs that hold locks, with redlocktest and -race, would run into this.
const Soon time.Duration = 1
