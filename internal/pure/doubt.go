package pure

// The votes of quarantined nodes (R10, R23).

// Void returns the quarantined nodes with grants that do not count: for a claim
// all of them, for an extension the doubted ones. Those were also quarantined
// when the key was set. A doubted node may have forgotten its vote for another
// client before that. That client may still wait for the last vote of its
// quorum. A key older than the quarantine proves that the node has forgotten
// nothing since.
func Void(claim bool, quarantined, doubted Set) Set {
	if claim {
		return quarantined
	}
	return quarantined & doubted
}

// RestoredCounts reports whether a key that a node set again is a grant
// (healing). It is none on a node in quarantine, now or at the time of the
// command's place: that may have forgotten another client's lock.
func RestoredCounts(node int, discounted, quarantined Set) bool {
	return !(discounted | quarantined).Has(node)
}

// DoubtRenewal returns a hold's doubted nodes after a renewal was sent, and
// those of them that it made so. A node that got the renewal and is not
// quarantined is no longer doubted. On a quarantined node a healing renewal may
// set the key again. The node is doubted until it answers that the key was
// there.
func DoubtRenewal(doubted, sent, quarantined Set, heals bool) (after, unsure Set) {
	doubted &^= sent &^ quarantined
	if heals {
		unsure = quarantined &^ doubted
	}
	return doubted | unsure, unsure
}

// DoubtGranted returns a hold's doubted nodes after the outcome of a renewal.
// The nodes that granted it had the key, so the key is older than their
// quarantine.
func DoubtGranted(doubted, unsure, granted Set) Set { return doubted &^ (unsure & granted) }
