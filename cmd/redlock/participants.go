package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/admin"
)

// participants are the parts of a statusReport about locks of several holders,
// as admin.Inspection has them.
type participants struct {
	Readers     []admin.Participant `json:"readers,omitempty"`
	WriterWaits bool                `json:"writer_waits,omitempty"`
	Permits     int                 `json:"permits,omitempty"`
	FreePermits *int                `json:"free_permits,omitempty"`
	PermitsHeld []admin.Participant `json:"permits_held,omitempty"`
	Queue       []admin.Participant `json:"queue,omitempty"`
	Cut         bool                `json:"cut,omitempty"` // there are more than these
}

func participantsOf(found admin.Inspection) participants {
	p := participants{
		Readers: found.Readers, WriterWaits: found.WriterWaits, Permits: found.Permits,
		PermitsHeld: found.PermitsHeld, Queue: found.Queue, Cut: found.Cut,
	}
	if found.Permits > 0 {
		p.FreePermits = &found.FreePermits
	}
	return p
}

// onQuorum returns those that a quorum of nodes has.
func onQuorum(found admin.Inspection, all []admin.Participant) (some []admin.Participant) {
	for _, p := range all {
		if len(p.Nodes) >= multiplex.Quorum(len(found.Nodes)) {
			some = append(some, p)
		}
	}
	return some
}

// participantsText says in a few words who shares a resource, or waits for it;
// "" if there is none.
func participantsText(found admin.Inspection) string {
	var parts []string
	if readers := onQuorum(found, found.Readers); len(readers) > 0 {
		text := "read by " + several(found, len(readers))
		if left := readers[0].TTL; left != admin.NoExpiry {
			text += ", the last for " + left.Round(time.Millisecond).String() + " unless it is extended or released"
		}
		parts = append(parts, text)
	}
	if found.WriterWaits {
		parts = append(parts, "a writer waits, and new readers are kept out")
	}
	if found.Permits > 0 {
		held := len(onQuorum(found, found.PermitsHeld))
		parts = append(parts, fmt.Sprintf("%d of %s held, %d free", held, count(found.Permits, "permit"), found.FreePermits))
	}
	if n := len(found.Queue); n > 0 {
		parts = append(parts, several(found, n)+" in the queue")
	}
	return strings.Join(parts, "; ")
}

// several returns a number of participants, of which there may be more.
func several(found admin.Inspection, n int) string {
	if found.Cut {
		return strconv.Itoa(n) + " or more"
	}
	return strconv.Itoa(n)
}

// participating reports for each node whether it has a reader or a permit.
func participating(found admin.Inspection) []bool {
	has := make([]bool, len(found.Nodes))
	for _, list := range [][]admin.Participant{found.Readers, found.PermitsHeld} {
		for _, p := range list {
			for _, i := range p.Nodes {
				has[i] = true
			}
		}
	}
	return has
}

// mostOnOne returns on how many nodes the reader or permit is that most have.
func mostOnOne(found admin.Inspection) (most int) {
	for _, list := range [][]admin.Participant{found.Readers, found.PermitsHeld} {
		for _, p := range list {
			most = max(most, len(p.Nodes))
		}
	}
	return most
}

// participantsTables returns the tables below that of the nodes.
func participantsTables(found admin.Inspection) string {
	return participantsTable(found, []string{"READER", "HOLDER", "TTL", "ON"}, found.Readers) +
		participantsTable(found, []string{"PERMIT", "HOLDER", "TTL", "ON"}, found.PermitsHeld) +
		participantsTable(found, []string{"PLACE", "WAITER", "LEASE", "ON"}, found.Queue)
}

// longestTable is how many rows a person reads; JSON has all.
const longestTable = 20

func participantsTable(found admin.Inspection, head []string, all []admin.Participant) string {
	if len(all) == 0 {
		return ""
	}
	rows := [][]string{head}
	for _, p := range all[:min(len(all), longestTable)] {
		ttl := p.TTL.String()
		if p.TTL == admin.NoExpiry {
			ttl = "none"
		}
		rows = append(rows, []string{strconv.Itoa(p.Number), named(p.Holder, p.Owner, p.Label), ttl, nodesText(found, p.Nodes)})
	}
	text := "\n" + table(rows)
	if more := len(all) - longestTable; more > 0 {
		text += fmt.Sprintf("not shown: %s (see --json)\n", several(found, more))
	}
	return text
}

// nodesText names the nodes that have a participant, unless all have it.
func nodesText(found admin.Inspection, on []int) string {
	if len(on) == len(found.Nodes) {
		return "all nodes"
	}
	var names []string
	for _, i := range on {
		names = append(names, found.Nodes[i].Addr)
	}
	return strings.Join(names, ", ")
}

// permitsCell says how many permits a node records, where there is a semaphore.
func permitsCell(n admin.InspectedNode) string {
	if n.Permits == 0 {
		return ""
	}
	return strconv.Itoa(n.Permits)
}
