package pure

// The votes of quarantined nodes (R10, R23). In a set of nodes, bit i stands
// for node i.

// Void returns the quarantined nodes whose grants do not count: for a claim all
// of them; for an extension those that were also quarantined when the key was
// set, the doubted ones. Such a node may have forgotten another client's vote
// before that, and that client may still wait for the last vote of its quorum.
// If the key is older than the quarantine, it proves that the node has
// forgotten nothing since.
func Void[S ~uint16](claim bool, quarantined, doubted S) S {
	if claim {
		return quarantined
	}
	return quarantined & doubted
}

// RestoredCounts reports whether a key that a node set again is a grant
// (healing). From a node that is quarantined, or was when the command got its
// place, it is not: the node may have forgotten the lock of another client.
func RestoredCounts[S ~uint16](node int, discounted, quarantined S) bool {
	return (discounted|quarantined)>>uint(node)&1 == 0
}

// DoubtRenewal returns a hold's doubted nodes after a renewal was sent, and
// those of them that are doubted because of it. A node that got the renewal and
// is not quarantined is doubted no more. On a quarantined node a healing
// renewal may set the key anew; the node is doubted unless it answers that the
// key was there.
func DoubtRenewal[S ~uint16](doubted, sent, quarantined S, heals bool) (after, unsure S) {
	doubted &^= sent &^ quarantined
	if heals {
		unsure = quarantined &^ doubted
	}
	return doubted | unsure, unsure
}

// DoubtGranted returns a hold's doubted nodes after the outcome of a renewal:
// on the nodes that granted it the key was there, so it is older than their
// quarantine.
func DoubtGranted[S ~uint16](doubted, unsure, granted S) S { return doubted &^ (unsure & granted) }
