/*
 * Deployment: clients open a set of masters, or join the deployment that is
 * there (R30). The questions: do clients whose sets overlap ever count in
 * different deployments, or with quorums that need not meet; is there a state
 * from which living clients of one set cannot get on?
 *
 * A master has a seal: none; NAMED, an id of its own; LISTED, for the set of
 * certain ids; or OPEN, for that. A client's order names the seal that it saw
 * and what shall stand in its place. It is one script, so it is atomic.
 *
 *  - A client looks at its nodes one by one, in any order, and rests on what it
 *    saw last, however old that is. All nodes had no seal at first, so it may
 *    have looked then. Where it looks and acts on one node at once, it is one
 *    step: the script decides by what is there when it comes. A node that cannot
 *    be reached is one that is looked at late.
 *  - What is seen at one node lets a client reset others (RESETS). These orders
 *    come at any later time.
 *  - CUTS times another order comes at any later time, or never, and its client
 *    goes on without an answer: it waits, or has lost its connection.
 *  - CRASHES times a client dies, and with it what is not late. Another client
 *    of its set that starts then is one that was idle until then.
 *  - EMPTIED times a node loses its keys, if every member is sealed, a client of
 *    that set is bound to it, and that client adopts the node before a client of
 *    another set sees it. OVER drops the last two conditions, ANYTIME drops all.
 *    EARLY has another one: the node is in no list, or not all members are. So
 *    has LISTED_ONLY: all members are listed, and not all are sealed.
 *
 * Two rules are more exact here than the text of R30: what shows that a list is
 * dead was seen after the list was; and a client that sees a node renamed looks
 * at all its nodes once more before it lists again (LISTS_STALE).
 *
 * Promised (agree): of two clients that count, each at any time, and whose sets
 * overlap, both are bound to one set of ids, their sets share a quorum of
 * either, and any quorum of the nodes that one ever counted meets any of the
 * other's. With LOOKED, instead: no two clients are bound to different ids when
 * both have looked at all their nodes. Promised in the end (judge, NO_JUDGE
 * leaves it out), when nothing can happen any more: each living client is bound,
 * and all members are sealed; or one of its nodes is OPEN for another set; or
 * one was left LISTED for another set, all of whose clients are dead. That is
 * for an operator. None is left LISTED for its own set. So living clients of one
 * set end in one deployment. Every run ends: each look has something to see, and
 * no node gets more than MADE ids. With NO_JUDGE it gets no more by assumption.
 *
 * What is left out: trust (R23, R29), which debut.pml has, so a node that was
 * emptied is known only by its seal; addresses, so a client knows each node by
 * its place in a list; Init, whose Replace is the user's word; which node is
 * opened first: that of the smallest id in the code, any here; and what only
 * delays an opening: the wait for a node that has just started, and nodes that
 * were last seen in another deployment (README.md).
 *
 * Macros that choose the sets: none is {A, B, C} for all; ONE_SHARED, {A, B, C}
 * and {C, D, E}; TWO_SHARED, {A, B, C} and {B, C, D}; INSIDE, {A, B, C} and
 * {A, B, C, D, E}. Client 1 has the second set, clients 0 and 2 the first. With
 * THREE_SETS they have {A, B, C}, {C, D, E} and {B, D, E}. DROP drops a rule.
 */

#ifndef DROP
#define DROP 0
#endif
#define ANY_ORDER 1 /* nodes are listed in any order, not in that of ids */
#define OPENS_EARLY 2 /* a node is opened before all are listed */
#define NO_COMPLETION 3 /* one that is LISTED beside one that is OPEN is left so */
#define NO_RESET 4 /* a list that is dead is left */
#define FOREIGN_KEPT 5 /* it is not dead because a node is in another list */
#define RESETS_FOREIGN 6 /* that of another set is reset, for want of its other nodes */
#define RESETS_STALE 7 /* what shows that it is dead was seen before */
#define RESETS_OPEN 8 /* it is reset though a node of it was seen OPEN */
#define KEEPS_ID 9 /* a node that is reset keeps its id */
#define LISTS_STALE 10 /* a client lists though it saw a node renamed */
#define BINDS_EARLY 11 /* one seal binds */
#define LISTED_COUNTED 12 /* LISTED counts for OPEN */
#define OPEN_IGNORED 13 /* a bound client ignores other sets that are OPEN */
#define LISTED_IGNORED 14 /* or LISTED */
#define SIZE_IGNORED 15 /* a client is bound to a set of another N */
#define BLANK_COUNTED 16 /* a bound client counts a node that is in no set */
#define STRANGER_ADOPTED 17 /* it adopts a node that is no member */
#define LISTED_ADOPTED 18 /* it adopts a member that is LISTED for another set */
#define NOT_COMPARED 19 /* a node does what an order says, whatever stands there */
#define LETTER 20 /* nothing is dropped: promised is R30 to the letter, that clients of different sets never both count */

#define FIRST 7
#define THIRD FIRST
#if defined(ONE_SHARED)
#define SECOND 28
#elif defined(TWO_SHARED)
#define SECOND 14
#elif defined(INSIDE)
#define SECOND 31
#elif defined(THREE_SETS)
#define SECOND 28
#undef THIRD
#define THIRD 26
#else
#define SECOND 7
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef CUTS
#define CUTS 0
#endif
#ifndef EMPTIED
#define EMPTIED 0
#endif
#ifndef MADE
#define MADE 3 /* at most; 7 is the most that fits */
#endif

#define NODES 5
#define BIT(mask, x) (((mask) >> (x)) & 1)
#define COUNT(mask) (BIT(mask, 0) + BIT(mask, 1) + BIT(mask, 2) + BIT(mask, 3) + BIT(mask, 4))
#define SET(c) ((c) == 0 -> FIRST : ((c) == 1 -> SECOND : THIRD))
#define HAS(c, n) BIT(SET(c), n)
#define SIZE(c) COUNT(SET(c))
#define QUORUM(c) (SIZE(c) / 2 + 1)

/* A seal: what it is, and four bits for each node: the id that it has there.
 * NAMED has the own id, LISTED and OPEN have those of all members. */
#define NAMED 1
#define LISTED 2
#define OPEN 3
#define SEAL(kind, ids) ((kind) << 20 | (ids))
#define KIND(seal) ((seal) >> 20)
#define IDS(seal) ((seal) & 1048575)
#define PUT(id, n) ((id) << (4 * (n)))
#define ID(ids, n) (((ids) >> (4 * (n))) & 15)
#define MEMBER(ids, n) (ID(ids, n) != 0)
#define MASK(ids) (MEMBER(ids, 0) | MEMBER(ids, 1) << 1 | MEMBER(ids, 2) << 2 | MEMBER(ids, 3) << 3 | MEMBER(ids, 4) << 4)
#define OURS(c, ids) (MASK(ids) == SET(c))
/* The lowest bit of an id is random. It says where the id is in the order of
 * ids. The first ids of nodes that belong to the same sets are in any order
 * alike. NEW is an order to make one. */
#define RANK(ids, n) (BIT(ID(ids, n), 0) * NODES + n)
#define RANDOM(n) (FIRST != SECOND || node[n].made > 0)
#define NEW(seal, n) (KIND(seal) == NAMED && ID(seal, n) < 2)

typedef View {
	unsigned sight : 22; /* the seal that the client saw last */
	bool stale; /* it is to be looked at again before the client lists */
	bool reset; /* an order to reset what was seen is under way */
#if CUTS > 0
	unsigned from : 22; /* a late order: what must stand there */
	unsigned late : 22; /* and what shall */
#endif
};
typedef Node {
	unsigned seal : 22;
	unsigned made : 3;  /* ids: 7 at most */
	unsigned votes : 3; /* clients that ever counted this node */
	View by[CLIENTS];
};
Node node[NODES];
int counted[CLIENTS]; /* the ids, once it was bound */
bool dead[CLIENTS];
byte crashes, cuts, emptied;
byte bare = NODES; /* the node that is to be adopted before others see it */
int bareIds;

/* For computing within a step; as they were between steps. */
byte i, k;
int ids, other;
bool agreed = true, ends = true;

#define EACH_NODE(what) i = 0; do :: i < NODES -> what; i++ :: else -> break od; i = 0
#define EACH_OWN(c, what) EACH_NODE(if :: HAS(c, i) -> what :: else fi)
/* p(c, x, n) for all nodes n, with an operator between. SOME can stand in what
 * the others are given. */
#define JOIN(op, p, c, x) (p(c, x, 0) op p(c, x, 1) op p(c, x, 2) op p(c, x, 3) op p(c, x, 4))
#define SOME(p, c, x) (p(c, x, 0) || p(c, x, 1) || p(c, x, 2) || p(c, x, 3) || p(c, x, 4))
#define ANY(p, c, x) JOIN(||, p, c, x)
#define ALL(p, c, x) JOIN(&&, p, c, x)
#define SUM(p, c, x) JOIN(+, p, c, x)

/* canonical puts the first and the last client, if they have one set, into an
 * order: states that differ only in that are one state. */
#if defined(SYMMETRY) && (CLIENTS == 2 && SECOND == FIRST || CLIENTS == 3 && THIRD == FIRST)
#define LAST (CLIENTS - 1)
#define RANK_CLIENT(c) (counted[c] * 2 + dead[c])
#define RANK_VIEW(c) (((node[i].by[c].sight * 2 + node[i].by[c].stale) * 2 + node[i].by[c].reset) * 2 + BIT(node[i].votes, c))
#define EXCHANGE(a, b) other = a; a = b; b = other
#define EXCHANGE_VIEW(field) EXCHANGE(node[i].by[0].field, node[i].by[LAST].field)
#if CUTS > 0
#define EXCHANGE_LATE EXCHANGE_VIEW(from); EXCHANGE_VIEW(late)
#else
#define EXCHANGE_LATE skip
#endif
inline canonical() {
	ids = RANK_CLIENT(0) - RANK_CLIENT(LAST);
	EACH_NODE(if :: ids == 0 -> ids = RANK_VIEW(0) - RANK_VIEW(LAST) :: else fi);
	if
	:: ids > 0 ->
		EXCHANGE(counted[0], counted[LAST]); EXCHANGE(dead[0], dead[LAST]);
		EACH_NODE(
			if
			:: BIT(node[i].votes, 0) != BIT(node[i].votes, LAST) -> node[i].votes = node[i].votes ^ (1 | 1 << LAST)
			:: else
			fi;
			EXCHANGE_VIEW(sight); EXCHANGE_VIEW(stale); EXCHANGE_VIEW(reset); EXCHANGE_LATE)
	:: else
	fi;
	ids = 0; other = 0
}
#else
inline canonical() { skip }
#endif

/* ---- What a client sees, and does about it ------------------------------- */

#define NOW(n) node[n].seal
#define VIEW(c, n) node[n].by[c]
#define SIGHT(c, n) VIEW(c, n).sight
#define IS(kind, c, n) (KIND(SIGHT(c, n)) == kind)
#define SAW(c, seal, n) (SIGHT(c, n) == (seal))
#define SAW_OPEN(c, x, n) IS(OPEN, c, n)
#define STALE(c, x, n) VIEW(c, n).stale

/* To open a set, each node gets an id; then all are listed for these ids, in
 * their order; then all are opened. */
#define SHOWN(c, x, n) (SIGHT(c, n) & PUT(15, n))
#define LIST(c) JOIN(|, SHOWN, c, 0)
#define LISTABLE(c, ids, n) (!HAS(c, n) || IS(NAMED, c, n) || SAW(c, SEAL(LISTED, ids), n))
#define CARRIES(c, ids, n) (!HAS(c, n) || SAW(c, SEAL(LISTED, ids), n))
#define BEFORE(c, n, m) (DROP != ANY_ORDER && IS(NAMED, c, m) && RANK(SIGHT(c, m), m) < RANK(SIGHT(c, n), n))
#define NAMES(c, n) (SIGHT(c, n) == 0 && !ANY(SAW_OPEN, c, 0))
#define LISTS(c, n) (IS(NAMED, c, n) && !ANY(BEFORE, c, n) && !ANY(STALE, c, 0) && ALL(LISTABLE, c, LIST(c)))
#define OPENS(c, n) (IS(LISTED, c, n) && (DROP == OPENS_EARLY && OURS(c, IDS(SIGHT(c, n))) || ALL(CARRIES, c, LIST(c))))

/* A node n gets the seal of m, which is OPEN: it is completed, or adopted. */
#define COMPLETES(c, n, m) (DROP != NO_COMPLETION && SAW(c, SEAL(LISTED, IDS(SIGHT(c, m))), n))
#define HOMELESS(c, n) (KIND(SIGHT(c, n)) < LISTED || DROP == LISTED_ADOPTED && IS(LISTED, c, n))
#define JOINS(c, n, m) (IS(OPEN, c, m) && (COMPLETES(c, n, m) || HOMELESS(c, n) && (MEMBER(SIGHT(c, m), n) || DROP == STRANGER_ADOPTED)))

/* A node m that was seen LISTED is reset if n now shows that its list is dead:
 * another id, none, or another list. It can never be complete then: ids do not
 * come back, but by adoption. */
#define LACKS(seal, ids, n) (IDS(seal) != (ids) && (KIND(seal) != NAMED && DROP != FOREIGN_KEPT || ID(seal, n) != ID(ids, n)))
#define MAY_DIE(c, m) (DROP != NO_RESET && IS(LISTED, c, m) && !VIEW(c, m).reset && \
	(OURS(c, IDS(SIGHT(c, m))) || DROP == RESETS_FOREIGN) && \
	(!SOME(SAW, c, SEAL(OPEN, IDS(SIGHT(c, m)))) || DROP == RESETS_OPEN))
#define RESET(c, n, low) SEAL(NAMED, (DROP == KEEPS_ID) * SHOWN(c, 0, n) + (DROP != KEEPS_ID) * PUT(low, n))
#define RESETS(c, n, m) ((m) != n && MAY_DIE(c, m) && LACKS(NOW(n), IDS(SIGHT(c, m)), n))
#define LACKED(c, m, n) (HAS(c, n) && (m) != n && LACKS(SIGHT(c, n), IDS(SIGHT(c, m)), n))

#define LOOKS(c, n) (SIGHT(c, n) != NOW(n) || STALE(c, 0, n) || ANY(RESETS, c, n))

inline see(c, n) {
	if
	:: DROP != LISTS_STALE && MEMBER(SIGHT(c, n), n) && ID(SIGHT(c, n), n) != ID(NOW(n), n) -> EACH_OWN(c, STALE(c, 0, i) = true)
	:: else
	fi;
	STALE(c, 0, n) = false;
	VIEW(c, n).reset = false;
	SIGHT(c, n) = NOW(n)
}

inline look(c, n) {
	EACH_OWN(c, if :: RESETS(c, n, i) -> VIEW(c, i).reset = true :: else fi);
	see(c, n);
	printf("client %d: sees at %c kind %d, ids %x\n", c, 65 + n, KIND(NOW(n)), IDS(NOW(n)));
	if :: DROP == RESETS_STALE && MAY_DIE(c, n) && SOME(LACKED, c, n) -> VIEW(c, n).reset = true :: else fi
}

/* ---- What a node does: the script ---------------------------------------- */

#define STANDS(n, was) (NOW(n) == (was) || DROP == NOT_COMPARED)

inline execute(n, was, shall) {
	if
	:: STANDS(n, was) && NEW(shall, n) ->
#ifndef NO_JUDGE
		ends = node[n].made < MADE;
		assert(ends); /* the promise */
#endif
		if :: node[n].made < MADE -> node[n].made++; NOW(n) = shall + PUT(2 * node[n].made, n) :: else fi
	:: STANDS(n, was) && !NEW(shall, n) -> NOW(n) = shall
	:: else
	fi;
	if :: bare == n && KIND(NOW(n)) == OPEN -> bare = NODES; bareIds = 0 :: else fi;
	printf("node %c: kind %d, ids %x\n", 65 + n, KIND(NOW(n)), IDS(NOW(n)))
}

inline order(c, n, shall) {
	printf("client %d: orders %c kind %d, ids %x\n", c, 65 + n, KIND(shall), IDS(shall));
	execute(n, SIGHT(c, n), shall);
	see(c, n)
}

inline send(c, n, shall) {
	cuts++;
	printf("client %d: orders %c kind %d, ids %x, which comes late\n", c, 65 + n, KIND(shall), IDS(shall));
	VIEW(c, n).reset = false;
	VIEW(c, n).from = SIGHT(c, n);
	VIEW(c, n).late = shall;
	canonical()
}

inline forget(c, n) { VIEW(c, n).from = 0; VIEW(c, n).late = 0; canonical() }

inline arrive(c, n) {
	printf("node %c: the late order of client %d\n", 65 + n, c);
	execute(n, VIEW(c, n).from, VIEW(c, n).late);
	forget(c, n)
}

/* ---- Who counts ---------------------------------------------------------- */

#define COUNTED(c, ids, n) (SAW(c, SEAL(OPEN, ids), n) || DROP == LISTED_COUNTED && SAW(c, SEAL(LISTED, ids), n))
#define FOREIGN(c, ids, n) (IDS(SIGHT(c, n)) != (ids) && \
	(IS(OPEN, c, n) && DROP != OPEN_IGNORED || IS(LISTED, c, n) && DROP != LISTED_IGNORED))
#define VOTES(c, ids, n) (COUNTED(c, ids, n) || DROP == BLANK_COUNTED && !FOREIGN(c, ids, n))
#define BOUND(c, ids) (SUM(COUNTED, c, ids) >= (DROP == BINDS_EARLY -> 1 : QUORUM(c)) && \
	(COUNT(MASK(ids)) == SIZE(c) || DROP == SIZE_IGNORED) && !SOME(FOREIGN, c, ids))

/* bind: the ids that it is bound to, or 0, are a function of what it saw last. */
inline bind(c) {
	EACH_OWN(c, if :: ids == 0 && KIND(SIGHT(c, i)) > NAMED && BOUND(c, IDS(SIGHT(c, i))) -> ids = IDS(SIGHT(c, i)) :: else fi)
}

#define SHARED(c, d, n) (HAS(c, n) && HAS(d, n))
#define VOTED(c, d, n) (BIT(node[n].votes, c) || BIT(node[n].votes, d))
#define MEET(c, d) (SUM(VOTED, c, d) < QUORUM(c) + QUORUM(d))
#define COMPATIBLE(c, d) (SUM(SHARED, c, d) >= QUORUM(c) && SUM(SHARED, c, d) >= QUORUM(d) && (SET(c) == SET(d) || DROP != LETTER))

/* agree is the promise about two clients that counted, each at any time. */
inline agree(c, d) {
	agreed = counted[d] == 0 || counted[d] == counted[c] && COMPATIBLE(c, d) && MEET(c, d);
	assert(agreed)
}

inline count(c) {
	if :: counted[c] == 0 -> printf("client %d: COUNTS, with ids %x\n", c, ids) :: else fi;
	agreed = counted[c] == 0 || counted[c] == ids;
	assert(agreed);
	counted[c] = ids;
	EACH_OWN(c, if :: VOTES(c, ids, i) -> node[i].votes = node[i].votes | (1 << c) :: else fi);
	do :: k < CLIENTS -> if :: k != c -> agree(c, k) :: else fi; k++ :: else -> break od;
	k = 0
}

#ifdef LOOKED
#define FRESH(c, x, n) (!HAS(c, n) || SIGHT(c, n) == NOW(n))
inline after(c) {
	bind(0);
	if :: ids != 0 && ALL(FRESH, 0, 0) -> other = ids; ids = 0; bind(1) :: else fi;
	agreed = other == 0 || ids == 0 || ids == other || !ALL(FRESH, 1, 0);
	assert(agreed);
	ids = 0; other = 0;
	canonical()
}
#else
inline after(c) {
	bind(c);
	if :: ids != 0 -> count(c) :: else fi;
	ids = 0;
	canonical()
}
#endif

/* ---- What may happen ----------------------------------------------------- */

#define WHOLE(ids, x, n) (!MEMBER(ids, n) || NOW(n) == SEAL(OPEN, ids))
#define KEEPS(c, ids) (!dead[c] && OURS(c, ids) && BOUND(c, ids))
#define LIVES(c, ids) (!dead[c] && OURS(c, ids))
#if CLIENTS > 2
#define OF_ANY(p, ids) (p(0, ids) || p(1, ids) || p(2, ids))
#else
#define OF_ANY(p, ids) (p(0, ids) || p(1, ids))
#endif
#define SEES(c, n) (bare != n || OURS(c, bareIds))
#define TAKEN(ids, x, n) (!MEMBER(ids, n) || KIND(NOW(n)) > NAMED && IDS(NOW(n)) == (ids))
#define LOST(n) (emptied < EMPTIED && NOW(n) != 0 && bare == NODES)
#if defined(ANYTIME)
#define EMPTIES(n) LOST(n)
#elif defined(EARLY)
#define EMPTIES(n) (LOST(n) && !ALL(TAKEN, IDS(NOW(n)), 0))
#elif defined(LISTED_ONLY)
#define EMPTIES(n) (LOST(n) && ALL(TAKEN, IDS(NOW(n)), 0) && !ALL(WHOLE, IDS(NOW(n)), 0))
#elif defined(OVER)
#define EMPTIES(n) (LOST(n) && ALL(WHOLE, IDS(NOW(n)), 0))
#else
#define EMPTIES(n) (LOST(n) && ALL(WHOLE, IDS(NOW(n)), 0) && OF_ANY(KEEPS, IDS(NOW(n))))
#define ADOPTED_FIRST
#endif

proctype Server(byte n) {
end:	do
	:: d_step { EMPTIES(n) ->
		emptied++;
		printf("node %c: loses all its keys\n", 65 + n);
#ifdef ADOPTED_FIRST
		bare = n;
		bareIds = IDS(NOW(n));
#endif
		NOW(n) = 0
	}
	od
}

proctype Client(byte c) {
end:	do
	:: d_step { crashes < CRASHES && !dead[c] && bare == NODES ->
		crashes++;
		printf("client %d: dies\n", c);
		dead[c] = true;
		EACH_NODE(STALE(c, 0, i) = false; VIEW(c, i).reset = false; SIGHT(c, i) = 0);
		canonical()
	}
	od
}

#define AT_ONCE(when, shall) :: d_step { !dead[c] && SEES(c, n) && when -> order(c, n, shall); after(c) }
#if CUTS > 0
#define ORDER(when, shall) AT_ONCE(when, shall) \
	:: d_step { !dead[c] && cuts < CUTS && VIEW(c, n).late == 0 && when -> send(c, n, shall) }
#else
#define ORDER AT_ONCE
#endif
#define JOINED(m) ORDER(JOINS(c, n, m), SIGHT(c, m))

proctype At(byte c, n) {
end:	do
	:: d_step { !dead[c] && SEES(c, n) && LOOKS(c, n) -> look(c, n); after(c) }
	ORDER(NAMES(c, n), SEAL(NAMED, 0))
	ORDER((NAMES(c, n) && RANDOM(n)), SEAL(NAMED, PUT(1, n)))
	ORDER(LISTS(c, n), SEAL(LISTED, LIST(c)))
	ORDER(OPENS(c, n), SEAL(OPEN, IDS(SIGHT(c, n))))
	ORDER(VIEW(c, n).reset, RESET(c, n, 0))
	ORDER(VIEW(c, n).reset, RESET(c, n, 1))
	JOINED(0) JOINED(1) JOINED(2) JOINED(3) JOINED(4)
#if CUTS > 0
	:: d_step { VIEW(c, n).late != 0 && SEES(c, n) -> arrive(c, n) }
	:: d_step { VIEW(c, n).late != 0 -> forget(c, n) }
#endif
	od
}

/* ---- The end ------------------------------------------------------------- */

#define REFUSES(c, x, n) (IS(OPEN, c, n) && !OURS(c, IDS(SIGHT(c, n))))
#define BLOCKS(c, x, n) (IS(LISTED, c, n) && !OF_ANY(LIVES, IDS(SIGHT(c, n))))
#define STUCK(c, x, n) (IS(LISTED, c, n) && OURS(c, IDS(SIGHT(c, n))))
#define SEALED(c, ids, n) (!HAS(c, n) || WHOLE(ids, 0, n))

/* judge: where nothing can happen any more, c is not stuck. */
inline judge(c) {
	bind(c);
	ends = (ids != 0 -> ALL(SEALED, c, ids) : ANY(REFUSES, c, 0) || ANY(BLOCKS, c, 0)) && !ANY(STUCK, c, 0);
	assert(ends); /* the promise */
	ids = 0
}

proctype Judge() {
end:	timeout -> d_step {
		do :: k < CLIENTS -> if :: !dead[k] -> judge(k) :: else fi; k++ :: else -> break od;
		k = 0
	}
}

init {
	atomic {
		do :: i < NODES -> run Server(i); i++ :: else -> break od;
		do
		:: k < CLIENTS ->
			run Client(k);
			EACH_OWN(k, run At(k, i));
			k++
		:: else -> break
		od;
		i = 0;
		k = 0;
#ifndef NO_JUDGE
		run Judge()
#endif
	}
}
