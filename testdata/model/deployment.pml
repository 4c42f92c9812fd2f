/*
 * Deployment: clients open a set of masters, or join the deployment that is
 * there (R30). The questions: do clients whose sets overlap ever count on
 * different ids, or with quorums that need not meet; is an id ever overwritten;
 * is there a state from which living clients of one set cannot get on?
 *
 * A master has a seal (none, or an id) and an opening (none, or an id, proposed
 * or locked). What a client's step does there is one script, so it is atomic.
 * Between nodes there is no order:
 *
 *  - A command comes to each node at any later time. Time is not modelled: a
 *    client waits for as long as it likes, a proposal ends at any moment, and
 *    nothing rests on the second that a client gives its proposals or on the
 *    two that it waits before it takes an opening for abandoned. A node that
 *    cannot be reached is one to which commands come late.
 *  - CUTS times a client gives up what is unanswered, in any phase. Any part of
 *    that may still be executed, at any later time (no fence is assumed).
 *  - CRASHES times a client dies, between any two steps; any part of what is
 *    under way of it is still executed. Another client of its set that starts
 *    then is one that was idle until then.
 *  - A client that is idle looks at its nodes one by one, in any order, and
 *    rests on what it saw last. Where it looks and acts on the same node at
 *    once, it is one step: the script decides by what is there when it comes.
 *  - A client opens without having looked (at first all nodes are free, so it
 *    may have looked then), unless it saw a seal or a lock. It does not look
 *    while it sends its commands.
 *  - EMPTIED times a node loses all its keys, if every member carries the same
 *    seal, a client of that set is bound to it, and that client adopts the node
 *    before a client of another set sees it. OVER drops the last two
 *    conditions, ANYTIME drops all.
 *
 * Three rules are stricter here than the text of R30, or more exact:
 *
 *  - An attempt is dead only if the node that lacks it was looked at after its
 *    lock was seen, and no node of the client was seen sealed with its id.
 *  - It is dead, too, for a client of another set, if a node that it should
 *    carry is sealed with another id.
 *  - The lock of another id, like its seal, keeps a client from counting.
 *
 * Promised (agree): of two clients that count, each at any time, and whose sets
 * overlap, both are bound to one id, their sets share a quorum of either, and
 * any quorum of the nodes that one ever counted meets any of the other's. With
 * LOOKED, instead: no two clients are bound to different ids when both have
 * looked at all their nodes. Promised at each node (putSeal): no seal is
 * replaced by another id. Promised in the end (judge, NO_JUDGE leaves it out),
 * when nothing can happen any more: no proposal is left, no lock is left that a
 * living client of its set could decide, a living client is bound if any of its
 * nodes is sealed for its set, and then all members are sealed. So all of one
 * set are bound to one id, or its nodes are free (attempts were used up) or
 * sealed or locked for another set. Every run ends, as each look must have
 * something to see.
 *
 * What is left out: trust (R23, R29), which debut.pml has, so a node that was
 * emptied is known only by its seal; seals of the older form, which are free;
 * Init, whose Replace is the user's word; addresses that name one master twice;
 * and what only delays or withholds an opening: the node that is asked first,
 * the wait for a node that has just started, and nodes that were last seen in
 * another deployment (README.md says why none of these is needed here).
 *
 * Nodes that belong to the same sets are interchangeable, so states that differ
 * in their order alone are one state (canonical).
 *
 * Macros that choose the sets: none is {A, B, C} for all; ONE_SHARED, {A, B, C}
 * and {C, D, E}; TWO_SHARED, {A, B, C} and {B, C, D}; INSIDE, {A, B, C} and
 * {A, B, C, D, E}. Client 1 has the second set, clients 0 and 2 the first.
 * Macros that drop a rule:
 *
 *   NO_LOCK             seals are sent once all proposals are confirmed
 *   REFUSAL_IGNORED     an attempt goes on without a node that refused
 *   PROPOSED_OVER       a proposal is accepted by a node that is sealed
 *   NO_EXPIRY           a proposal does not expire
 *   UNKNOWN_UNDONE      locks are undone if an answer to one is missing
 *   SEALS_UNDONE        locks are undone after seals were sent
 *   SAME_ID             an id is used again by the next attempt
 *   NO_COMPLETION       an attempt that all nodes carry is not completed
 *   COMPLETES_SHORT     one is completed that a node does not carry
 *   NO_KILL             an attempt that is dead is not undone
 *   KILLS_CARRIED       one is undone that all nodes carry
 *   KILLS_STALE         the node that lacks it was looked at before
 *   KILLS_SEALED        one is undone though a node is sealed
 *   FOREIGN_KEPT        one of another set is left, though it is dead
 *   BINDS_EARLY         one seal binds
 *   LOCKS_COUNTED       a lock counts for a seal
 *   FOREIGN_IGNORED     a bound client ignores other ids
 *   LOCK_IGNORED        it ignores their locks
 *   SIZE_IGNORED        a client is bound to an id of another N
 *   BLANK_COUNTED       a bound client counts a node without seal
 *   STRANGER_ADOPTED    it adopts a node that is no member
 *   LETTER              drops nothing, but promises, as R30 says, that clients
 *                       of different sets never both count
 */

#if defined(ONE_SHARED)
#define NODES 5
#define FIRST 7
#define SECOND 28
#define CLASS(n) ((n) / 2 + ((n) == 3))
#elif defined(TWO_SHARED)
#define NODES 4
#define FIRST 7
#define SECOND 14
#define CLASS(n) (((n) + 1) / 2)
#elif defined(INSIDE)
#define NODES 5
#define FIRST 7
#define SECOND 31
#define CLASS(n) ((n) / 3)
#else
#define NODES 3
#define FIRST 7
#define SECOND 7
#define CLASS(n) 0
#endif

#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef TRIES0
#define TRIES0 1 /* attempts to open, of client 0: at most 2 */
#endif
#ifndef TRIES1
#define TRIES1 1
#endif
#ifndef TRIES2
#define TRIES2 0 /* it joins, adopts and recovers only */
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

#define BIT(mask, x) (((mask) >> (x)) & 1)
#define ON(mask, x) mask = mask | (1 << x)
#define OFF(mask, x) mask = mask & (255 - (1 << x))

#define SET(c) ((c) == 1 -> SECOND : FIRST)
#define HAS(c, n) BIT(SET(c), n)
#define SIZE(c) (SECOND == 31 && (c) == 1 -> 5 : 3)
#define QUORUM(c) (SIZE(c) / 2 + 1)
#define TRIES(c) (c == 0 -> TRIES0 : (c == 1 -> TRIES1 : TRIES2))

/* An id is an attempt of a client: client 0 has 1 and 2, client 1 has 3 and 4,
 * client 2 has 5 and 6. The names of nodes and clients say whose set it is. */
#ifdef SAME_ID
#define ID(c, try) (2 * c + 1)
#else
#define ID(c, try) (2 * c + 1 + try)
#endif
#define OWNER(id) (((id) - 1) / 2)
#define MEMBER(id, n) HAS(OWNER(id), n)
#define OURS(c, id) (SET(OWNER(id)) == SET(c))

mtype = { UNDO, SEAL, LOCK, PROPOSE };
#define IDLE 0
#define LOCKED 8 /* plus an id: a lock, as a client sees it */

typedef Node {
	byte seal;
	byte opening;
	bool locked; /* the opening */
	byte todo;   /* clients whose command was not executed here yet */
	byte late;   /* clients that gave a command up which may still come */
	byte votes;  /* clients that ever counted this node */
	byte sight[CLIENTS]; /* the seal that it saw last, or LOCKED + an opening */
};

typedef Client {
	byte phase; /* IDLE, or the command that is under way to its nodes */
	byte id;    /* what that is about */
	bool refused;
	byte tries;
	bool dead;
	byte bound;   /* the id */
	byte counted; /* the id, once it was bound */
	byte lateVerb; /* the command that was given up */
	byte lateId;
};

Node node[NODES];
Client client[CLIENTS];
byte crashes, cuts;
#if EMPTIED
byte emptied;
byte bare = NODES; /* the node that is to be adopted before others see it */
byte bareId;
#endif

/* For computing within a step; as they were between steps, so that they are no
 * part of the state. */
byte i, j, k, swap, total, id;
bool yes;
bool agreed = true, own = true, settled = true;
int rank, other;

#define EACH_NODE(what) i = 0; do :: i < NODES -> what; i++ :: else -> break od; i = 0
#define EACH_OWN(c, what) EACH_NODE(if :: HAS(c, i) -> what :: else fi)

/* p(c, x, n) for all nodes n, with an operator between. SOME can stand in what
 * ANY and ALL are given. */
#if NODES == 3
#define JOIN(op, p, c, x) (p(c, x, 0) op p(c, x, 1) op p(c, x, 2))
#define SOME(p, c, x) (p(c, x, 0) || p(c, x, 1) || p(c, x, 2))
#elif NODES == 4
#define JOIN(op, p, c, x) (p(c, x, 0) op p(c, x, 1) op p(c, x, 2) op p(c, x, 3))
#define SOME(p, c, x) (p(c, x, 0) || p(c, x, 1) || p(c, x, 2) || p(c, x, 3))
#else
#define JOIN(op, p, c, x) (p(c, x, 0) op p(c, x, 1) op p(c, x, 2) op p(c, x, 3) op p(c, x, 4))
#define SOME(p, c, x) (p(c, x, 0) || p(c, x, 1) || p(c, x, 2) || p(c, x, 3) || p(c, x, 4))
#endif
#define ANY(p, c, x) JOIN(||, p, c, x)
#define ALL(p, c, x) JOIN(&&, p, c, x)
#define SUM(p, c, x) JOIN(+, p, c, x)

/* canonical puts the nodes that belong to the same sets into an order. */
#ifdef SYMMETRY
#if CLIENTS > 2
#define SIGHTS(n) ((node[n].sight[2] * 16 + node[n].sight[1]) * 16 + node[n].sight[0])
#else
#define SIGHTS(n) (node[n].sight[1] * 16 + node[n].sight[0])
#endif
#define RANK(n) ((((((SIGHTS(n) * 8 + node[n].seal) * 8 + node[n].opening) * 2 + node[n].locked) * 8 + \
	node[n].todo) * 8 + node[n].late) * 8 + node[n].votes)
#define EXCHANGE(field) swap = node[j].field; node[j].field = node[j + 1].field; node[j + 1].field = swap
inline canonical() {
	i = NODES - 1;
	do
	:: i > 0 ->
		j = 0;
		do
		:: j < i ->
			rank = RANK(j);
			other = RANK(j + 1);
			if
			:: CLASS(j) == CLASS(j + 1) && rank > other ->
				EXCHANGE(seal); EXCHANGE(opening); EXCHANGE(locked); EXCHANGE(todo); EXCHANGE(late);
				EXCHANGE(votes); EXCHANGE(sight[0]); EXCHANGE(sight[1]);
#if CLIENTS > 2
				EXCHANGE(sight[2]);
#endif
#if EMPTIED
				if :: bare == j -> bare = j + 1 :: bare == j + 1 -> bare = j :: else fi
#endif
			:: else
			fi;
			j++
		:: else -> break
		od;
		i--
	:: else -> break
	od;
	i = 0; j = 0; swap = 0; rank = 0; other = 0
}
#else
inline canonical() { skip }
#endif

/* ---- What a node does: the scripts --------------------------------------- */

#define BLANK(n) (node[n].seal == 0 && node[n].opening == 0)
#ifdef PROPOSED_OVER
#define MAY_PROPOSE(n) (node[n].opening == 0)
#else
#define MAY_PROPOSE(n) BLANK(n)
#endif
#ifdef NO_LOCK
#define MAY_SEAL(n, name) (node[n].opening == name)
#else
#define MAY_SEAL(n, name) (node[n].opening == name && node[n].locked)
#endif

inline putSeal(n, name) {
	own = node[n].seal == 0 || node[n].seal == name;
	assert(own); /* the promise */
	if :: node[n].seal == 0 -> printf("node %c: sealed with id %d\n", 65 + n, name) :: else fi;
	node[n].seal = name;
	node[n].opening = 0;
	node[n].locked = false;
#if EMPTIED
	if :: bare == n -> bare = NODES; bareId = 0 :: else fi
#endif
}

inline execute(n, verb, name) {
	yes = false;
	if
	:: verb == PROPOSE && MAY_PROPOSE(n) -> node[n].opening = name; yes = true
	:: verb == LOCK && node[n].opening == name -> node[n].locked = true; yes = true
	:: verb == SEAL && MAY_SEAL(n, name) -> putSeal(n, name); yes = true
	:: verb == SEAL && node[n].seal == name -> yes = true
	:: verb == UNDO ->
		yes = true;
		if :: node[n].opening == name -> node[n].opening = 0; node[n].locked = false :: else fi
	:: else
	fi
}

/* ---- What a client sends ------------------------------------------------- */

inline send(c, verb, name) {
	client[c].phase = verb;
	client[c].id = name;
	client[c].refused = false;
	EACH_OWN(c, ON(node[i].todo, c));
	printf("client %d: %e to all its nodes, id %d\n", c, verb, name)
}

inline rest(c) {
	client[c].phase = IDLE;
	client[c].id = 0;
	client[c].refused = false;
	EACH_NODE(OFF(node[i].todo, c))
}

#ifdef NO_LOCK
#define AFTER_PROPOSE SEAL
#else
#define AFTER_PROPOSE LOCK
#endif
#define TODO(c, x, n) BIT(node[n].todo, c)
#define LATE(c, x, n) BIT(node[n].late, c)

/* proceed is what a client does when all nodes have answered. */
inline proceed(c) {
	if
	:: client[c].dead || client[c].phase == SEAL || client[c].phase == UNDO -> rest(c)
	:: !client[c].dead && !client[c].refused && client[c].phase == LOCK -> send(c, SEAL, client[c].id)
	:: !client[c].dead && !client[c].refused && client[c].phase == PROPOSE -> send(c, AFTER_PROPOSE, client[c].id)
	:: else
	fi
}

inline arrive(c, n) {
	OFF(node[n].todo, c);
	execute(n, client[c].phase, client[c].id);
	printf("node %c: %e of client %d, id %d, %d\n", 65 + n, client[c].phase, c, client[c].id, yes);
	if
	:: client[c].dead
#ifndef REFUSAL_IGNORED
	:: !client[c].dead && !yes -> client[c].refused = true
#endif
	:: !client[c].dead && yes && client[c].phase == SEAL -> node[n].sight[c] = client[c].id
#ifdef LOCKS_COUNTED
	:: !client[c].dead && yes && client[c].phase == LOCK -> node[n].sight[c] = LOCKED + client[c].id
#endif
	:: else
	fi;
	yes = false;
	if :: !ANY(TODO, c, 0) -> proceed(c) :: else fi
}

/* giveUp: an attempt is undone if it may not have locked all, and not if it
 * may. */
inline giveUp(c) {
	cuts++;
	printf("client %d: loses its connections\n", c);
	client[c].lateVerb = client[c].phase;
	client[c].lateId = client[c].id;
	EACH_NODE(if :: TODO(c, 0, i) -> ON(node[i].late, c); OFF(node[i].todo, c) :: else fi);
	if
	:: client[c].phase == PROPOSE || (client[c].phase == LOCK && client[c].refused) -> send(c, UNDO, client[c].id)
#ifdef UNKNOWN_UNDONE
	:: client[c].phase == LOCK && !client[c].refused -> send(c, UNDO, client[c].id)
#endif
#ifdef SEALS_UNDONE
	:: client[c].phase == SEAL -> send(c, UNDO, client[c].id)
#endif
	:: else -> rest(c)
	fi
}

inline forget(c) {
	EACH_NODE(OFF(node[i].late, c));
	client[c].lateVerb = 0;
	client[c].lateId = 0
}

inline arriveLate(c, n) {
	OFF(node[n].late, c);
	execute(n, client[c].lateVerb, client[c].lateId);
	printf("node %c: late %e of client %d, id %d, %d\n", 65 + n, client[c].lateVerb, c, client[c].lateId, yes);
	yes = false;
	if :: !ANY(LATE, c, 0) -> forget(c) :: else fi
}

inline crash(c) {
	crashes++;
	printf("client %d: dies\n", c);
	client[c].dead = true;
	client[c].refused = false;
	client[c].tries = 0;
	client[c].bound = 0;
	EACH_NODE(node[i].sight[c] = 0)
}

/* ---- What a client sees, and does about it ------------------------------- */

#define FREE(c) (!client[c].dead && client[c].phase == IDLE)
#define NOW(n) (node[n].seal + node[n].locked * (LOCKED + node[n].opening))
#define SEEN(c, x, n) (node[n].sight[c] != 0)
#define FRESH(c, x, n) (!HAS(c, n) || node[n].sight[c] == NOW(n))
#define SAW_SEAL(c, name, n) (node[n].sight[c] == (name))
#define SAW_LOCK(c, name, n) (node[n].sight[c] == LOCKED + (name))
#define CARRIED(c, name, n) (!HAS(c, n) || SAW_SEAL(c, name, n) || SAW_LOCK(c, name, n))
#define LACKS(n, name) (node[n].seal != (name) && node[n].opening != (name))

/* An attempt is to be finished if all nodes of its set carry it, or one of them
 * is sealed: then all its locks were granted, and it is never undone. */
#if defined(NO_COMPLETION)
#define COMPLETES(c, name) false
#elif defined(COMPLETES_SHORT)
#define COMPLETES(c, name) (OURS(c, name) && SUM(CARRIED, c, name) >= NODES - 1)
#else
#define COMPLETES(c, name) (OURS(c, name) && ALL(CARRIED, c, name))
#endif
#define FINISHES(c, n) (node[n].sight[c] > LOCKED && node[n].sight[c] == NOW(n) && \
	(ANY(SAW_SEAL, c, node[n].sight[c] - LOCKED) || COMPLETES(c, node[n].sight[c] - LOCKED)))

/* It is dead if a node lacks it now, though it was seen locked elsewhere: all
 * proposals were confirmed before the first lock, and this one is gone. */
#if defined(NO_KILL)
#define DEAD(c, name, n) false
#elif defined(KILLS_CARRIED)
#define DEAD(c, name, n) OURS(c, name)
#elif defined(FOREIGN_KEPT)
#define DEAD(c, name, n) (OURS(c, name) && LACKS(n, name))
#else
#define DEAD(c, name, n) (MEMBER(name, n) && LACKS(n, name) && (OURS(c, name) || node[n].seal != 0))
#endif
#ifdef KILLS_SEALED
#define UNSEALED(c, name) true
#else
#define UNSEALED(c, name) !SOME(SAW_SEAL, c, name)
#endif
#define KILLS(c, n, m) (node[m].sight[c] > LOCKED && DEAD(c, node[m].sight[c] - LOCKED, n) && \
	UNSEALED(c, node[m].sight[c] - LOCKED))

#define LOOKS(c, n) (node[n].sight[c] != NOW(n) || FINISHES(c, n) || ANY(KILLS, c, n))

inline look(c, n) {
	EACH_OWN(c, if :: id == 0 && KILLS(c, n, i) -> id = node[i].sight[c] - LOCKED :: else fi);
	node[n].sight[c] = NOW(n);
	printf("client %d: sees at %c seal %d, lock %d\n", c, 65 + n, node[n].seal, node[n].locked * node[n].opening);
#ifdef KILLS_STALE
	if
	:: node[n].locked && OURS(c, node[n].opening) && UNSEALED(c, node[n].opening) &&
		!ALL(CARRIED, c, node[n].opening) -> id = node[n].opening
	:: else
	fi;
#endif
	if
	:: id != 0 ->
		EACH_OWN(c, if :: SAW_LOCK(c, id, i) -> node[i].sight[c] = 0 :: else fi);
		send(c, UNDO, id)
	:: id == 0 && FINISHES(c, n) -> id = node[n].opening; send(c, SEAL, id)
	:: else
	fi;
	id = 0
}

/* ---- Who counts ---------------------------------------------------------- */

#ifdef BINDS_EARLY
#define BINDS_AT(c) 1
#else
#define BINDS_AT(c) QUORUM(c)
#endif
#ifdef SIZE_IGNORED
#define SAME_SIZE(c, name) true
#else
#define SAME_SIZE(c, name) (SIZE(OWNER(name)) == SIZE(c))
#endif
#ifdef LOCKS_COUNTED
#define COUNTED(c, name, n) (SAW_SEAL(c, name, n) || SAW_LOCK(c, name, n))
#else
#define COUNTED(c, name, n) SAW_SEAL(c, name, n)
#endif
#if defined(FOREIGN_IGNORED)
#define FOREIGN(c, name, n) false
#elif defined(LOCK_IGNORED)
#define FOREIGN(c, name, n) (SEEN(c, 0, n) && !SAW_SEAL(c, name, n) && node[n].sight[c] < LOCKED)
#else
#define FOREIGN(c, name, n) (SEEN(c, 0, n) && !SAW_SEAL(c, name, n) && !SAW_LOCK(c, name, n))
#endif
#ifdef BLANK_COUNTED
#define VOTES(c, name, n) !FOREIGN(c, name, n)
#else
#define VOTES(c, name, n) COUNTED(c, name, n)
#endif

/* To adopt a node, one seal that c saw is enough, however long ago that was. To
 * count, it is not. */
#ifdef STRANGER_ADOPTED
#define ADOPTABLE(name, n) true
#else
#define ADOPTABLE(name, n) MEMBER(name, n)
#endif
#define ADOPTS_AS(c, n, m) (SEEN(c, 0, m) && node[m].sight[c] < LOCKED && SAME_SIZE(c, node[m].sight[c]) && \
	ADOPTABLE(node[m].sight[c], n) && !SOME(FOREIGN, c, node[m].sight[c]))
#define ADOPTS(c, n) (BLANK(n) && ANY(ADOPTS_AS, c, n))

inline adopt(c, n) {
	printf("client %d: adopts %c\n", c, 65 + n);
	EACH_OWN(c, if :: ADOPTS_AS(c, n, i) -> id = node[i].sight[c] :: else fi);
	putSeal(n, id);
	node[n].sight[c] = id;
	id = 0
}

/* bind is a function of what c saw last. */
inline bind(c) {
	EACH_OWN(c,
		if
		:: SEEN(c, 0, i) && node[i].sight[c] < LOCKED && (id == 0 || SAW_SEAL(c, client[c].bound, i)) ->
			id = node[i].sight[c]
#ifdef LOCKS_COUNTED
		:: node[i].sight[c] > LOCKED && id == 0 -> id = node[i].sight[c] - LOCKED
#endif
		:: else
		fi);
	EACH_OWN(c, total = total + COUNTED(c, id, i));
	if
	:: id != 0 && total >= BINDS_AT(c) && SAME_SIZE(c, id) && !ANY(FOREIGN, c, id) -> client[c].bound = id
	:: else -> client[c].bound = 0
	fi;
	id = 0;
	total = 0
}

#define SHARED(c, d, n) (BIT(FIRST, n) && BIT(SECOND, n))
#define VOTED(c, d, n) (BIT(node[n].votes, c) || BIT(node[n].votes, d))
#define MEET(c, d) (SUM(VOTED, c, d) < QUORUM(c) + QUORUM(d))
#ifdef LETTER
#define COMPATIBLE(c, d) (SET(c) == SET(d))
#else
#define COMPATIBLE(c, d) (SET(c) == SET(d) || (SUM(SHARED, c, d) >= QUORUM(c) && SUM(SHARED, c, d) >= QUORUM(d)))
#endif

/* agree is the promise about two clients that counted, each at any time. */
inline agree(c, d) {
	agreed = client[d].counted == client[c].counted && COMPATIBLE(c, d) && MEET(c, d);
	assert(agreed)
}

inline count(c) {
	if
	:: client[c].counted == 0 -> printf("client %d: COUNTS, with id %d\n", c, client[c].bound)
	:: else
	fi;
	agreed = client[c].counted == 0 || client[c].counted == client[c].bound;
	assert(agreed);
	client[c].counted = client[c].bound;
	EACH_OWN(c, if :: VOTES(c, client[c].bound, i) -> ON(node[i].votes, c) :: else fi);
	k = 0;
	do
	:: k < CLIENTS -> if :: k != c && client[k].counted != 0 -> agree(c, k) :: else fi; k++
	:: else -> break
	od;
	k = 0
}

#ifdef LOOKED
#define SURE(c) (client[c].bound != 0 && ALL(FRESH, c, 0))
inline after(c) {
	bind(c);
	agreed = !(SURE(0) && SURE(1)) || client[0].bound == client[1].bound;
	assert(agreed);
	canonical()
}
#else
inline after(c) {
	bind(c);
	if :: client[c].bound != 0 && !client[c].dead -> count(c) :: else fi;
	canonical()
}
#endif

/* ---- What may happen ----------------------------------------------------- */

#if EMPTIED
#define ADOPTED (bareId == 0)
#define OPEN(c, n) (bare != n || OURS(c, bareId))
#else
#define ADOPTED true
#define OPEN(c, n) true
#endif

proctype Client_(byte c) {
end:	do
	:: d_step { FREE(c) && client[c].tries < TRIES(c) && !ANY(SEEN, c, 0) ->
		client[c].tries++;
		send(c, PROPOSE, ID(c, client[c].tries - 1));
		canonical()
	}
	:: d_step { client[c].refused && client[c].phase != SEAL -> send(c, UNDO, client[c].id); canonical() }
	:: d_step { cuts < CUTS && !client[c].dead && client[c].phase != IDLE && !ANY(LATE, c, 0) ->
		giveUp(c);
		canonical()
	}
	:: d_step { crashes < CRASHES && !client[c].dead && ADOPTED -> crash(c); canonical() }
	/* What is under way of it is lost, as far as it has not come by now. */
	:: d_step { client[c].dead && ANY(TODO, c, 0) -> rest(c); canonical() }
	:: d_step { ANY(LATE, c, 0) -> forget(c); canonical() }
	od
}

proctype At(byte c, n) {
end:	do
	:: d_step { TODO(c, 0, n) && OPEN(c, n) -> arrive(c, n); after(c) }
	:: d_step { LATE(c, 0, n) && OPEN(c, n) -> arriveLate(c, n); canonical() }
	:: d_step { FREE(c) && OPEN(c, n) && LOOKS(c, n) -> look(c, n); after(c) }
	:: d_step { FREE(c) && OPEN(c, n) && ADOPTS(c, n) -> adopt(c, n); after(c) }
	od
}

#if EMPTIED
#define WHOLE(c, name, n) (!MEMBER(name, n) || node[n].seal == (name))
#define KEEPS(c, name) (FREE(c) && client[c].bound == (name) && OURS(c, name))
#if CLIENTS > 2
#define KEPT(name) (KEEPS(0, name) || KEEPS(1, name) || KEEPS(2, name))
#else
#define KEPT(name) (KEEPS(0, name) || KEEPS(1, name))
#endif
#if defined(ANYTIME)
#define MAY_BE_EMPTIED(n) (node[n].seal != 0 || node[n].opening != 0)
#elif defined(OVER)
#define MAY_BE_EMPTIED(n) (node[n].seal != 0 && ALL(WHOLE, 0, node[n].seal))
#else
#define MAY_BE_EMPTIED(n) (node[n].seal != 0 && ALL(WHOLE, 0, node[n].seal) && KEPT(node[n].seal))
#define ADOPTED_FIRST
#endif

inline wipe(n) {
	emptied++;
	printf("node %c: loses all its keys\n", 65 + n);
#ifdef ADOPTED_FIRST
	bare = n;
	bareId = node[n].seal;
#endif
	node[n].seal = 0;
	node[n].opening = 0;
	node[n].locked = false
}
#endif

#ifdef NO_EXPIRY
#define EXPIRES(n) false
#else
#define EXPIRES(n) (node[n].opening != 0 && !node[n].locked)
#endif

proctype Node_(byte n) {
end:	do
	:: d_step { EXPIRES(n) ->
		printf("node %c: the proposal of id %d expires\n", 65 + n, node[n].opening);
		node[n].opening = 0;
		canonical()
	}
#if EMPTIED
	:: d_step { emptied < EMPTIED && MAY_BE_EMPTIED(n) -> wipe(n); canonical() }
#endif
	od
}

/* ---- The end ------------------------------------------------------------- */

/* judge: where nothing can happen any more, c is not stuck. */
inline judge(c) {
	EACH_OWN(c,
		if
		:: node[i].opening != 0 -> settled = node[i].locked && !OURS(c, node[i].opening)
		:: node[i].opening == 0 && client[c].bound != 0 ->
			settled = node[i].seal == client[c].bound || !MEMBER(client[c].bound, i)
		:: node[i].opening == 0 && client[c].bound == 0 && node[i].seal != 0 -> settled = !OURS(c, node[i].seal)
		:: else
		fi;
		assert(settled)) /* the promise */
}

proctype Judge() {
end:	timeout -> d_step {
		k = 0;
		do
		:: k < CLIENTS -> if :: !client[k].dead -> judge(k) :: else fi; k++
		:: else -> break
		od;
		k = 0
	}
}

init {
	atomic {
		i = 0;
		do
		:: i < NODES -> run Node_(i); i++
		:: else -> break
		od;
		k = 0;
		do
		:: k < CLIENTS ->
			run Client_(k);
			i = 0;
			do
			:: i < NODES -> if :: HAS(k, i) -> run At(k, i) :: else fi; i++
			:: else -> break
			od;
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
