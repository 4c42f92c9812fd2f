package pure

import "strings"

// ProcessName returns the name of what is watched at a node (R23): a run of the
// server, as long as it keeps its keys. It is the run id, a colon, and the
// replication history (see conn.Server.History). A server that became a replica
// and a master again has the same run id, another history, and the keys of
// another server. Without a run id there is no name. If the history is not
// known, the name is the run id.
func ProcessName(run, history string) string {
	if run == "" || history == "" || strings.ContainsAny(run+history, " \r\n") {
		return run
	}
	return run + ":" + history
}

// runOf returns the run id in the name of a process.
func runOf(process string) string {
	run, _, _ := strings.Cut(process, ":")
	return run
}

// rewritten reports whether two processes are one run of a server with two
// histories: what it had in the earlier one may be gone. It takes a name
// without a history, as in seals of older forms, for no proof of that.
func rewritten(earlier, process string) bool {
	return earlier != process && runOf(earlier) == runOf(process) && strings.Contains(earlier, ":") && strings.Contains(process, ":")
}

// survives reports whether a durable node's keys of an earlier process are
// still there: they are, unless the node was a replica meanwhile.
func survives(earlier, process string) bool {
	return !promoted(process) && !rewritten(earlier, process)
}

// promoted reports whether a process was a replica before, by its name.
func promoted(process string) bool { return strings.Count(process, ":") > 1 }

// whyChanged returns why a process is quarantined that has the run id of an
// earlier one, and another history.
func whyChanged(process string) string {
	if promoted(process) {
		return WhyDemoted
	}
	return WhyHistory
}

// Related reports whether two replication histories (conn.Server.History) are
// of one group: a server and its replica, or a primary and its former one.
func Related(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	ofA, ofB := strings.Split(a, ":"), strings.Split(b, ":")
	return ofA[0] == ofB[0] || len(ofA) > 1 && ofA[1] == ofB[0] || len(ofB) > 1 && ofB[1] == ofA[0]
}
