/*
 * Members: a deployment's masters are replaced while clients use it (issue 29;
 * not built). The question: can two clients count votes with quorums that miss
 * each other?
 *
 * A list names the members of a deployment, how many of them a lock needs, and
 * its generation. Each node shows one list, or none if it is new or lost its
 * keys. A client counts the votes of members, if as many as are needed showed it
 * the same list within a lease; its locks may last for MaxTTL longer. There are
 * no clients here, but all that any could do: window has the lists that a node
 * has shown since the last moment of which an operator knows that a lease and
 * MaxTTL have passed. Whoever looked in that time may count with those.
 *
 *  - An operator changes one thing at a time: a list without one member, with
 *    another one and needing one more, or needing one less, as long as each
 *    quorum of the new list meets each quorum of all lists since its last wait
 *    (meets). It writes the list to nodes that still show the former one, one
 *    by one. Once enough show it, it looks at all of these again, and they must
 *    not have lost their keys meanwhile (sure). Then it goes on, or waits for
 *    a lease and MaxTTL. DEATHS operators die at any moment; others begin with
 *    any list that a node shows. OPS of them work at one time, and do not know
 *    of each other.
 *  - A node with an older list is brought up to date by any client that may
 *    count with a later one, at any time.
 *  - EMPTIED times a node loses its keys. To whom it gives its place back, a
 *    client first writes a name (era), then looks at enough other nodes that
 *    any list which a quorum has shown would be seen, and gives it the latest
 *    of these, unless it has lost the name.
 *
 * What is left out: locks, and trust in nodes that lost their keys (R23), which
 * exclusion.pml has; how a set is opened; that a node without a list was taken
 * for the wrong member.
 *
 * Macros that drop a rule:
 *
 *   NO_WAIT       no operator ever waits
 *   NO_SURE       what was written is taken to be there
 *   SWAPS         a member is added without needing one more
 *   GIVES_ONE     one other node is enough to give a place back
 *   GIVES_STALE   what was seen before the name was written is enough, too
 *   GIVES_OLDEST  the earliest of the lists seen is given
 */
#ifndef NODES
#define NODES 4
#endif
#ifndef FIRST
#define FIRST 7 /* the nodes of the first list */
#endif
#ifndef OPS
#define OPS 1
#endif
#ifndef EMPTIED
#define EMPTIED 0
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef LISTS
#define LISTS 4 /* how many there can be */
#endif

#define NONE 15
#define BIT(mask, x) (((mask) >> (x)) & 1)
#define COUNT(mask) (BIT(mask, 0) + BIT(mask, 1) + BIT(mask, 2) + BIT(mask, 3) + BIT(mask, 4) + BIT(mask, 5))

/* The lists that were ever made. */
byte generation[LISTS];
byte needed[LISTS];
byte members[LISTS];
byte made = 1;

typedef Node {
	byte list;
	byte era; /* how often it lost its keys */
	bool named;
	byte window; /* lists */
}
Node node[NODES];
byte emptied, deaths;

#define IDLE 0
#define WRITES 1
#define LOOKS 2
#define INFORCE 3
typedef Op {
	byte phase;
	byte base, target;
	byte wrote, sure; /* nodes */
	byte era[NODES];  /* when it wrote there */
	byte since;       /* lists since its last wait */
	bool unsure;      /* of what was there before it came */
	byte shown[NODES] /* lists since the target was in force */
}
Op op[OPS];

#if EMPTIED
bool gives;
byte givesTo, givesEra, looked, best; /* the client that gives a place back */
#endif

/* For computing within a step. */
byte i, m, n, l, t;
bool ok;
bool promised = true;

#if NODES == 4
#define EACH(p, x) (p(x, 0) | (p(x, 1) << 1) | (p(x, 2) << 2) | (p(x, 3) << 3))
#else
#define EACH(p, x) (p(x, 0) | (p(x, 1) << 1) | (p(x, 2) << 2) | (p(x, 3) << 3) | (p(x, 4) << 4))
#endif
#define SHOWED(l, n) BIT(node[n].window, l)
/* the members that a client may count with a list */
#define VOTERS(l) (members[l] & EACH(SHOWED, l))
#define MISS(a, b) (COUNT(VOTERS(a)) >= needed[a] && COUNT(VOTERS(b)) >= needed[b] && \
	COUNT(VOTERS(a) | VOTERS(b)) >= needed[a] + needed[b])
#define MEETS(a, b) (needed[a] + needed[b] > COUNT(members[a] | members[b]))

inline rest() { i = 0; m = 0; n = 0; l = 0; t = 0; ok = false }

inline display(x, a) {
	node[x].list = a;
	node[x].window = node[x].window | (1 << a);
	i = 0;
	do
	:: i < OPS ->
		if :: op[i].phase == INFORCE -> op[i].shown[x] = op[i].shown[x] | (1 << a) :: else fi;
		i++
	:: else -> break
	od;
	printf("node %c shows list %d: members %d, needs %d\n", 65 + x, a, members[a], needed[a]);
	i = 0;
	do
	:: i < made -> promised = promised && !MISS(a, i); assert(promised); i++ /* the promise */
	:: else -> break
	od
}

#if EMPTIED
#ifdef GIVES_ONE
#define ENOUGH (COUNT(looked & members[best]) >= 1)
#else
#define ENOUGH (COUNT(looked & members[best]) > COUNT(members[best]) - needed[best])
#endif
#define SAME (node[givesTo].named && node[givesTo].era == givesEra)
#ifdef GIVES_OLDEST
#define BETTER(a) (best == NONE || generation[a] < generation[best])
#else
#define BETTER(a) (best == NONE || generation[a] > generation[best])
#endif
inline see(x, a) {
	looked = looked | (1 << x);
	if :: BETTER(a) -> best = a :: else fi
}
inline stopGiving() { gives = false; givesTo = 0; givesEra = 0; looked = 0; best = 0 }
#endif

inline plan(a, from, to) {
	op[a].phase = WRITES; op[a].base = from; op[a].target = to; op[a].wrote = 0; op[a].sure = 0;
	n = 0;
	do :: n < NODES -> op[a].era[n] = 0; op[a].shown[n] = 0; n++ :: else -> break od
}

inline inForce(a) {
	op[a].phase = INFORCE; op[a].wrote = 0; op[a].sure = 0;
	op[a].since = op[a].since | (1 << op[a].target);
	n = 0;
	do
	:: n < NODES ->
		op[a].era[n] = 0;
		op[a].shown[n] = (node[n].list == NONE -> 0 : 1 << node[n].list);
		n++
	:: else -> break
	od
}

/* change begins to write a list with members m, if it may. */
inline change(a, need) {
	t = op[a].target;
	l = 0;
	do
	:: l < made -> if :: generation[l] == generation[t] + 1 && needed[l] == need && members[l] == m -> break :: else -> l++ fi
	:: else -> break
	od;
	ok = l < LISTS;
	if
	:: l == made && ok -> generation[l] = generation[t] + 1; needed[l] = need; members[l] = m; made++
	:: else
	fi;
#ifndef NO_WAIT
	i = 0;
	do
	:: i < made && ok -> ok = !op[a].unsure && (!BIT(op[a].since, i) || MEETS(l, i)); i++
	:: else -> break
	od;
#endif
	if
	:: ok -> plan(a, t, l)
	:: !ok && l == made - 1 && l < LISTS -> /* it was not made */
		ok = true;
		i = 0;
		do :: i < OPS -> ok = ok && op[i].target != l && op[i].base != l; i++ :: else -> break od;
		i = 0;
		do :: i < NODES -> ok = ok && !BIT(node[i].window, l); i++ :: else -> break od;
		if :: ok -> made--; generation[l] = 0; needed[l] = 0; members[l] = 0 :: else fi
	:: else
	fi
}

#define MEMBERS(a) members[op[a].target]
#define NEED(a) needed[op[a].target]
#define OVER(a, x) (node[x].list == op[a].base || \
	!BIT(members[op[a].base], x) && (node[x].list == NONE || generation[node[x].list] < generation[op[a].target]))
#ifdef NO_SURE
#define SURE(a) true
#else
#define SURE(a) (COUNT(op[a].sure) >= NEED(a))
#endif
/* The first member to go is node 0: they are alike. */
#define GOES(a, x) (BIT(MEMBERS(a), x) && COUNT(MEMBERS(a)) > NEED(a) && (op[a].target > 0 || x == 0))
#ifdef SWAPS
#define MORE 0
#else
#define MORE 1
#endif

#define OPERATES(a, x) \
	:: atomic { op[a].phase == WRITES && BIT(members[op[a].base] | MEMBERS(a), x) && !BIT(op[a].wrote, x) && (OVER(a, x) || node[x].list == op[a].target) -> \
		op[a].wrote = op[a].wrote | (1 << x); op[a].era[x] = node[x].era; node[x].named = true; \
		if :: node[x].list != op[a].target -> display(x, op[a].target) :: else fi; rest() } \
	:: atomic { op[a].phase == LOOKS && BIT(op[a].wrote & MEMBERS(a), x) && !BIT(op[a].sure, x) && \
			node[x].list == op[a].target && node[x].era == op[a].era[x] -> op[a].sure = op[a].sure | (1 << x) } \
	:: atomic { op[a].phase == INFORCE && GOES(a, x) && made <= LISTS -> m = MEMBERS(a) & ~(1 << x); change(a, NEED(a)); rest() } \
	:: atomic { op[a].phase == INFORCE && !BIT(MEMBERS(a), x) && made <= LISTS -> m = MEMBERS(a) | (1 << x); change(a, NEED(a) + MORE); rest() } \
	:: atomic { op[a].phase == IDLE && node[x].list != NONE -> op[a].unsure = true; plan(a, node[x].list, node[x].list); rest() }

#define OPERATOR(a) \
	OPERATES(a, 0) OPERATES(a, 1) OPERATES(a, 2) OPERATES(a, 3) OPERATES4(a) \
	:: atomic { op[a].phase == WRITES && COUNT(op[a].wrote & MEMBERS(a)) >= NEED(a) -> op[a].phase = LOOKS } \
	:: atomic { op[a].phase == LOOKS && SURE(a) -> inForce(a); rest() } \
	:: atomic { op[a].phase == INFORCE && 2 * (NEED(a) - 1) > COUNT(MEMBERS(a)) -> m = MEMBERS(a); change(a, NEED(a) - 1); rest() } \
	:: atomic { op[a].phase == INFORCE && (op[a].unsure || op[a].since != (1 << op[a].target)) -> \
		printf("operator %d: has waited\n", a); \
		do :: n < NODES -> node[n].window = node[n].window & op[a].shown[n]; n++ :: else -> break od; \
		op[a].since = 1 << op[a].target; op[a].unsure = false; rest() } \
	:: atomic { op[a].phase != IDLE && deaths < DEATHS -> \
		deaths++; plan(a, 0, 0); op[a].phase = IDLE; op[a].since = 0; op[a].unsure = false; rest() }

/* node x gets list l from a client that may count with it */
#define PUSH(x, a) \
	:: atomic { a < made && node[x].list != NONE && generation[node[x].list] < generation[a] && COUNT(VOTERS(a)) >= needed[a] -> \
		display(x, a); rest() }
#if LISTS > 4
#define PUSH4(x) PUSH(x, 4)
#else
#define PUSH4(x)
#endif
#if LISTS > 5
#define PUSH5(x) PUSH(x, 5)
#else
#define PUSH5(x)
#endif
#define PUSHES(x) PUSH(x, 1) PUSH(x, 2) PUSH(x, 3) PUSH4(x) PUSH5(x)

#ifdef GIVES_STALE
#define SEE_BEFORE(x, a) :: atomic { gives && x != givesTo && a < made && BIT(node[x].window, a) && !BIT(looked, x) -> see(x, a) }
#define SEES_BEFORE(x) SEE_BEFORE(x, 0) SEE_BEFORE(x, 1) SEE_BEFORE(x, 2) SEE_BEFORE(x, 3)
#else
#define SEES_BEFORE(x)
#endif
#if EMPTIED
#define LOSES(x) \
	:: atomic { emptied < EMPTIED && node[x].list != NONE -> emptied++; node[x].list = NONE; node[x].named = false; node[x].era++; printf("node %c is emptied\n", 65 + x) } \
	:: atomic { emptied > 0 && !gives && node[x].list == NONE && node[x].window != 0 -> \
		gives = true; givesTo = x; node[x].named = true; givesEra = node[x].era; best = NONE } \
	:: atomic { gives && x != givesTo && node[x].list != NONE && !BIT(looked, x) -> see(x, node[x].list) } \
	SEES_BEFORE(x)
#else
#define LOSES(x)
#endif

#if NODES > 4
#define OPERATES4(a) OPERATES(a, 4)
#define NODE4 PUSHES(4) LOSES(4)
#else
#define OPERATES4(a)
#define NODE4
#endif

init {
	atomic {
		generation[0] = 1; needed[0] = COUNT(FIRST) / 2 + 1; members[0] = FIRST;
		do
		:: n < NODES ->
			if
			:: BIT(FIRST, n) -> node[n].named = true; node[n].window = 1
			:: else -> node[n].list = NONE
			fi;
			n++
		:: else -> break
		od;
		rest()
	}
end:	do
	OPERATOR(0)
#if OPS > 1
	OPERATOR(1)
#endif
	PUSHES(0) PUSHES(1) PUSHES(2) PUSHES(3)
	LOSES(0) LOSES(1) LOSES(2) LOSES(3)
	NODE4
#if EMPTIED
	:: atomic { gives && best != NONE && BIT(members[best], givesTo) && ENOUGH ->
		if :: node[givesTo].list == NONE && SAME -> m = givesTo; t = best; node[givesTo].named = true; display(m, t) :: else fi;
		stopGiving(); rest() }
	:: atomic { gives -> stopGiving() }
#endif
	od
}
