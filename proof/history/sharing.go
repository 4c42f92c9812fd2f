package history

import "slices"

// share reports whether two locks of a resource, by their grants, may be held
// at one time. Permits are counted instead: see mostOf. They have keys of their
// own, and exclude no other lock.
func share(a, b Event) bool {
	switch {
	case a.Form == PermitForm || b.Form == PermitForm:
		return true
	case a.Form == ReadForm && b.Form == ReadForm:
		return true
	}
	return upgraded(a, b) || upgraded(b, a)
}

// upgraded reports whether a writer is the reader, which it stays.
func upgraded(read, write Event) bool {
	return read.Form == ReadForm && write.Form == WriteForm && write.From != 0 && write.exchanged() == attemptOf(read)
}

// exchanged identifies the attempt that this one is exchanged for.
func (e Event) exchanged() attempt { return attempt{e.Source, e.Client, e.From, e.Resource} }

// permitsAmong returns the holds of permits.
func permitsAmong(all []*hold) (permits []*hold) {
	for _, h := range all {
		if h.grant.Form == PermitForm {
			permits = append(permits, h)
		}
	}
	return permits
}

// mostOf returns the largest number of permits that any of their holders asked
// for. It is never exceeded: see redlock.Client.Semaphore.
func mostOf(permits []*hold) (most int) {
	for _, h := range permits {
		most = max(most, h.grant.Permits)
	}
	return most
}

// exchanges are the downgrades under way, by resource. If one succeeds, no node
// of its quorum was without its keys since it began: no other that excludes the
// readers can have been granted the lock.
type exchanges map[string][]*exchange

type exchange struct {
	begun Event
	by    *hold // the first that was granted the lock since then, or nil
}

func (x *exchanges) begin(e Event) {
	if e.Form != ReadForm || e.From == 0 {
		return
	}
	if *x == nil {
		*x = make(exchanges)
	}
	(*x)[e.Resource] = append((*x)[e.Resource], &exchange{begun: e})
}

// granted notes a new hold.
func (x exchanges) granted(h *hold) {
	for _, one := range x[h.grant.Resource] {
		if one.by == nil && !share(one.begun, h.grant) {
			one.by = h
		}
	}
}

// end forgets an attempt, and returns what came between if it was a downgrade.
func (x exchanges) end(e Event) (by *hold) {
	if len(x[e.Resource]) == 0 {
		return nil
	}
	x[e.Resource] = slices.DeleteFunc(x[e.Resource], func(one *exchange) bool {
		is := attemptOf(one.begun) == attemptOf(e)
		if is {
			by = one.by
		}
		return is
	})
	return by
}

// sweep drops attempts whose clients are gone.
func (x exchanges) sweep(now int64) {
	for resource, all := range x {
		x[resource] = slices.DeleteFunc(all, func(one *exchange) bool { return one.begun.T+overdueFor < now })
		if len(x[resource]) == 0 {
			delete(x, resource)
		}
	}
}
