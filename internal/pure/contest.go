package pure

import "time"

// Decisions about a lock that several clients want all the time. A server tells
// the client with the latest connection first. If clients tried at once, the
// order of their connections would decide, again and again.

const (
	// ContestsWary is for how many contests a client draws lots after it has
	// lost one. A client among many rivals does not win so many in a row.
	ContestsWary = 16
	// contestsRarely is after how many contests in a row their winner draws
	// a lot nevertheless: it may win by the others' lots.
	contestsRarely = 16
	// After contestsInVain lost contests, a client tries at once now and
	// then. The winner may be one that knows of no others.
	contestsInVain = 8
	// contestMost bounds the window where nodes are near.
	contestMost = 20 * time.Millisecond
)

// ContestWindow returns the time over which clients spread their attempts at a
// lock that became free. period is the time from one such moment to the next, 0
// if it is not known. All see the same, so it gives each the same chance. A
// third of it is long compared with the time in which a server tells a dozen
// clients, and the first of several lots costs little of it. usual is the time
// to a quorum: clients closer to each other than that split the votes.
func ContestWindow(period, usual time.Duration) time.Duration {
	return max(2*usual, min(period/3, contestMost))
}

// ContestDelay returns how long a client waits before it tries to get a free
// lock: a random part of the window. A little less of it remains with each
// contest lost in this wait. random is uniform in [0, 1).
func ContestDelay(lost int, window time.Duration, random float64) time.Duration {
	return time.Duration(random * float64(window) * 32 / float64(32+lost))
}

// DrawsLot reports whether a client waits for that delay. again means that the
// client had the lock a moment ago, wary is how many contests are left of
// ContestsWary, and lost how many it has lost in this wait. A newcomer goes
// before those that come again. One that got the lock whenever it was told is
// alone, as far as it knows, and loses no time.
func DrawsLot(again bool, wary, lost int, random float64) bool {
	switch {
	case !again:
		return false
	case wary == 0:
		return random < 1.0/contestsRarely
	}
	return lost < contestsInVain || random >= 0.25
}

// IsContest reports whether news of a lock means another client's grant, rather
// than an extension. apart is the time since the last news. left is how long
// the keys had to live then, negative for unknown: it was soon over. A holder
// renews its lock at a third of its validity.
func IsContest(apart, left time.Duration) bool { return left < 0 || apart < left/4 }
