package pure

import "time"

// Decisions about a lock that several clients want all the time. A server tells
// the client that connected last first, so a client that tries as soon as it is
// told wins or loses by when it connected, again and again.

const (
	// ContestsWary is for how many contests a client draws lots after it has
	// lost one. A client among many rivals does not win so many in a row.
	ContestsWary = 16
	// contestsRarely is after how many contests a client that wins them all
	// draws a lot nevertheless: it may win because the others draw.
	contestsRarely = 16
	// After contestsInVain lost contests, a client tries at once now and then: the
	// lock may be taken each time by one that does not know that others wait.
	contestsInVain = 8
	// contestMost bounds the window where nodes are near.
	contestMost = 20 * time.Millisecond
)

// ContestWindow returns the time over which clients spread their attempts when
// a lock becomes free that they waited for. period is the time from one such
// moment to the next, 0 if it is not known. All that wait see the same, so it
// gives each the same chance: a third of it is long compared with the time in
// which a server tells a dozen clients, and the first of several lots costs
// little of it. usual is the time to a quorum: clients that are closer to each
// other than that split the votes.
func ContestWindow(period, usual time.Duration) time.Duration {
	return max(2*usual, min(period/3, contestMost))
}

// ContestDelay returns how long a client waits before it tries to get a lock
// that has become free: a random part of the window, of which a little less
// remains with each contest that it has lost in this wait. random is uniform in
// [0, 1).
func ContestDelay(lost int, window time.Duration, random float64) time.Duration {
	return time.Duration(random * float64(window) * 32 / float64(32+lost))
}

// DrawsLot reports whether a client waits for that delay. again means that the
// client had the lock a moment ago, wary is how many contests are left of
// ContestsWary, and lost how many it has lost in this wait. A client that comes
// for the first time goes before those that come again. One that got the lock
// whenever it was told is alone, as far as it knows, and loses no time.
func DrawsLot(again bool, wary, lost int, random float64) bool {
	switch {
	case !again:
		return false
	case wary == 0:
		return random < 1.0/contestsRarely
	}
	return lost < contestsInVain || random >= 0.25
}

// IsContest reports whether news of a lock is that another client took it,
// rather than that its holder extended it. apart is the time since the last
// news, and left is how long the keys had to live then, negative if that is not
// known: it was soon over. A holder renews its lock at a third of its validity.
func IsContest(apart, left time.Duration) bool { return left < 0 || apart < left/4 }
