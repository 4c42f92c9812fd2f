//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package conn

// sendNow writes nothing: the writer goroutine writes everything.
func sendNow(uintptr, []byte) (int, error) { return 0, nil }

// unreadNow returns 0: it cannot know.
func unreadNow(uintptr) int { return 0 }
