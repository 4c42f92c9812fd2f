/*
 * Exclusion: clients compete for one resource over N nodes. The question is whether two of them can hold it at one time,
 * each within the validity that it computed (R4), and whether an extension (R10) can bridge another client's hold.
 *
 * The world is made as bad as the rules allow, and where that makes it simpler, worse:
 *
 *  - A message is delivered at any later time, in any order, or never, which is how one is lost. Here not even the order
 *    within a connection is kept: exclusion must not need it. (Orphans do, see orphans.pml.)
 *  - Time is a tick that may come at any moment; no process has to act before it does. So every pause of a client or a
 *    node, and every crash of a client, is among the runs.
 *  - Ticks are the clients' time. A node's clock may run faster or slower by the drift: a key that is to live TTL ticks
 *    ends at some time from TTL - DRIFT to TTL + DRIFT, each key as it likes. That is more than any clock within the drift
 *    can do. Clients' clocks differ by as much from each other, which matters where one client's watch over a restarted
 *    node (R23) is weighed against another's lock: the watch may end DRIFT ticks early.
 *  - A node restarts without memory at any moment, CRASHES times in all. What was on its way to it is lost with its
 *    connections, but not the replies that it had sent. All clients notice at once, and share one watch, as if a seal
 *    were written at once: a client that notices later counts the node later, so this is the most dangerous case.
 *  - DEMOTIONS times a node is a replica for a moment, and takes the keys of another server for its own. Its process goes
 *    on: what was on its way to it comes. No client counts what it grants after that, since the node says that its keys
 *    went before it replies to anything later; the watch begins anew.
 *  - An attempt ends at any moment for any reason (refused, timed out, cancelled, released, its process gone), and its
 *    release is on its way to all nodes from then on.
 *
 * What is bounded: clients, attempts of each (two at most), extensions of each, restarts, and all times, which are small
 * numbers of ticks. Nodes are interchangeable, so states that differ in their order alone are one state (canonical).
 *
 * Each rule can be dropped by a macro; run.sh drops one at a time and expects a counterexample.
 */

#ifndef N
#define N 3
#endif
#define CLIENTS 2
#ifndef TTL0
#define TTL0 3 /* of client 0's locks, in ticks */
#endif
#ifndef TTL1
#define TTL1 3
#endif
#ifndef TTLX
#define TTLX TTL0 /* of extensions */
#endif
#ifndef DRIFT
#define DRIFT 1 /* over any TTL here */
#endif
#ifndef TRIES0
#define TRIES0 2
#endif
#ifndef TRIES1
#define TRIES1 1
#endif
#ifndef EXTENDS
#define EXTENDS 0
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef DEMOTIONS
#define DEMOTIONS 0
#endif
#ifndef LOSSES
#define LOSSES 0 /* keys that vanish from a node that goes on: its clock steps, FLUSHALL, eviction, a failover */
#endif
#ifndef MAXTTL
#define MAXTTL (TTL0 > TTL1 -> TTL0 : TTL1)
#endif

/* What is configured, or dropped. */
#ifndef QUORUM
#define QUORUM (N / 2 + 1)
#endif
#ifdef NO_DRIFT
#define ALLOWANCE 0
#else
#define ALLOWANCE DRIFT
#endif
#ifndef WATCH
#define WATCH (MAXTTL + DRIFT) /* R23: MaxTTL * (1 + drift), by the clock of the watching client */
#endif

#define TTL(c) (c == 0 -> TTL0 : TTL1)
#define TRIES(c) (c == 0 -> TRIES0 : TRIES1)

/* Each client has two slots, one for each attempt; an attempt's token is its slot + 1, and 0 is no key. */
#define SLOTS 4
#define OWNER(s) ((s) / 2)
#define CURRENT(c) (2 * c + client[c].attempt)
#ifdef SAME_TOKEN
#define TOKEN(s) (2 * OWNER(s) + 1)
#else
#define TOKEN(s) ((s) + 1)
#endif

/* A claim, as far as one node is concerned: what is on its way. */
#define NOTHING 0
#define SET 1
#define GRANT 2
#define RELEASE 4 /* and a release besides */

/* An extension, likewise. */
#define EXTEND 1
#define EXTENDED 2

typedef Node {
	byte key;    /* a token, or 0 */
	byte left;   /* ticks until the key is gone at the latest */
	byte barred; /* ticks until its grants count again */
	byte claim[SLOTS];
#if EXTENDS
	byte extension[CLIENTS];
#endif
};

/* A client's phase. */
#define IDLE 0
#define TRYING 1
#define HOLDING 2 /* within validity while left > 0, and then until it gives the lock back or forgets it */
#define DONE 3

typedef Client {
	byte phase;
	byte attempt;
	byte age; /* of the attempt, by its own clock, while it is tried */
	byte votes;
	byte left; /* of the validity */
#ifdef READ_EARLY
	byte read; /* the age at the first vote */
#endif
#if EXTENDS
	byte extensions;
	bool extending;
	byte asked; /* the age of the extension that is under way */
	byte extended; /* votes on it */
	bool interrupted; /* another client held the resource since it was granted */
#endif
};

Node node[N];
Client client[CLIENTS];
byte crashes;
#if DEMOTIONS
byte demotions;
#endif
#if LOSSES
byte losses;
#endif
#ifdef UNFENCED_WORK
bool looked[CLIENTS]; /* at its validity, and is to act on what it saw */
#endif

/*
 * Three things make the states fewer and take no run away that could show a violation:
 *  - A release that would find nothing to delete, now and later, is forgotten (tidy). Where a rule is dropped that makes
 *    it dangerous, it is kept.
 *  - An attempt or a lock that has no validity left is over at once (tick): its release may take its time.
 *  - Without extensions a key does not outlive its TTL: a late one could only refuse, as the loss of a SET does.
 */
#if defined(PLAIN_DEL) || defined(SAME_TOKEN)
#define KEEPS_RELEASES
#endif
#if EXTENDS
#define LATE DRIFT
#else
#define LATE 0
#endif
#if defined(NO_ELAPSED) || defined(READ_EARLY)
#define HOPELESS(c) (client[c].phase == TRYING && client[c].age >= TTL(c))
#else
#define HOPELESS(c) (client[c].phase == TRYING && client[c].age >= TTL(c) - ALLOWANCE)
#endif
#ifdef EXTEND_EXPIRED
#define LAPSED(c) false
#else
#define LAPSED(c) (client[c].phase == HOLDING && client[c].left == 0)
#endif

/* For computing within a step; zero between steps, so that they are no part of the state. */
byte i, j, k, swap;
int rank, other;

#define EACH_CLIENT(what) k = 0; do :: k < CLIENTS -> what; k++ :: else -> break od; k = 0
#define EACH_NODE(what) i = 0; do :: i < N -> what; i++ :: else -> break od; i = 0

#define TIDY(s) if :: node[i].claim[s] == RELEASE && node[i].key != TOKEN(s) -> node[i].claim[s] = NOTHING :: else fi

inline tidy() {
	skip;
#ifndef KEEPS_RELEASES
	EACH_NODE(TIDY(0); TIDY(1); TIDY(2); TIDY(3));
#endif
	skip
}

/* canonical puts the nodes into an order, so that states which differ in nothing else are the same. */
#ifdef SYMMETRY
#if EXTENDS
#define RANK_EXTENSIONS(k) * 9 + node[k].extension[0] * 3 + node[k].extension[1]
#else
#define RANK_EXTENSIONS(k)
#endif
#define RANK(k) (((((((node[k].key * 16 + node[k].left) * 16 + node[k].barred) * 6 + node[k].claim[0]) * 6 + \
	node[k].claim[1]) * 6 + node[k].claim[2]) * 6 + node[k].claim[3]) RANK_EXTENSIONS(k))
#define EXCHANGE(field) swap = node[j].field; node[j].field = node[j + 1].field; node[j + 1].field = swap
inline canonical() {
	tidy();
	i = N - 1;
	do
	:: i > 0 ->
		j = 0;
		do
		:: j < i ->
			rank = RANK(j);
			other = RANK(j + 1);
			if
			:: rank > other ->
				EXCHANGE(key); EXCHANGE(left); EXCHANGE(barred);
				EXCHANGE(claim[0]); EXCHANGE(claim[1]); EXCHANGE(claim[2]); EXCHANGE(claim[3]);
#if EXTENDS
				EXCHANGE(extension[0]); EXCHANGE(extension[1]);
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
inline canonical() { tidy() }
#endif


/* ---- What a client does ------------------------------------------------------------------------------------------ */

/* R2: the claim goes to all nodes at once. R4: its time counts from before. */
inline begin(c) {
	client[c].phase = TRYING;
	client[c].age = 0;
	client[c].votes = 0;
	EACH_NODE(node[i].claim[CURRENT(c)] = SET);
	printf("client %d: attempt %d, SET to all nodes\n", c, client[c].attempt)
}

/* hold is the vote that completes the quorum. R4: what is left of the TTL, if anything is. */
inline hold(c) {
#ifdef NO_ELAPSED
	rank = TTL(c) - ALLOWANCE;
#else
#ifdef READ_EARLY
	rank = TTL(c) - client[c].read - ALLOWANCE;
#else
	rank = TTL(c) - client[c].age - ALLOWANCE;
#endif
#endif
	if
	:: rank > 0 ->
		client[c].phase = HOLDING;
		client[c].left = rank;
		client[c].age = 0;
		client[c].votes = 0;
#ifndef LATE_COUNTED
		EACH_NODE(if :: node[i].claim[CURRENT(c)] == GRANT -> node[i].claim[CURRENT(c)] = NOTHING :: else fi);
#endif
		printf("client %d: HOLDS, valid for another %d\n", c, client[c].left);
		assert(client[1 - c].left == 0); /* the promise */
#if EXTENDS
		client[c].interrupted = false;
		client[1 - c].interrupted = (client[1 - c].phase == HOLDING)
#endif
	:: else
	fi;
	rank = 0
}

inline count(c) {
#ifdef READ_EARLY
	if :: client[c].votes == 0 -> client[c].read = client[c].age :: else fi;
#endif
	client[c].votes++;
	if
	:: client[c].votes == QUORUM -> hold(c)
	:: else
	fi
}

/* finish is the end of an attempt, or of a lock. R7: the release goes to all nodes. */
inline finish(c) {
	printf("client %d: attempt %d is over, release to all nodes\n", c, client[c].attempt);
	EACH_NODE(
		if
		:: node[i].claim[CURRENT(c)] == SET -> node[i].claim[CURRENT(c)] = SET + RELEASE
#ifdef LATE_COUNTED
		:: node[i].claim[CURRENT(c)] == GRANT
#endif
		:: else -> node[i].claim[CURRENT(c)] = RELEASE
		fi
	);
	client[c].age = 0;
	client[c].votes = 0;
	client[c].left = 0;
#ifdef READ_EARLY
	client[c].read = 0;
#endif
#if EXTENDS
	client[c].extending = false;
	client[c].asked = 0;
	client[c].extended = 0;
	client[c].interrupted = false;
	EACH_NODE(node[i].extension[c] = NOTHING);
#endif
	client[c].attempt++;
	if
	:: client[c].attempt < TRIES(c) -> client[c].phase = IDLE /* R3: with another token */
	:: else -> client[c].phase = DONE; client[c].attempt = 0
	fi
}

#if EXTENDS
/* R10: to all nodes, while the lock is valid. What is still on its way of an extension before is lost. */
inline extend(c) {
	printf("client %d: EXTEND to all nodes\n", c);
	client[c].extensions++;
	client[c].extending = true;
	client[c].asked = 0;
	client[c].extended = 0;
	EACH_NODE(node[i].extension[c] = EXTEND)
}

/* prolong is the vote that completes the quorum for an extension. */
inline prolong(c) {
	rank = TTLX - client[c].asked - ALLOWANCE;
	client[c].extending = false;
	client[c].asked = 0;
	client[c].extended = 0;
	EACH_NODE(if :: node[i].extension[c] == EXTENDED -> node[i].extension[c] = NOTHING :: else fi);
	if
#ifdef EXTEND_EXPIRED
	:: rank > client[c].left ->
#else
	:: client[c].left > 0 && rank > client[c].left -> /* R10: before the old validity ended, and never less */
#endif
		client[c].left = rank;
		printf("client %d: EXTENDED, valid for another %d\n", c, client[c].left);
		assert(client[1 - c].left == 0); /* the promise */
		assert(!client[c].interrupted)   /* and without a gap */
	:: else
	fi;
	rank = 0
}
#endif

proctype Client_(byte c) {
	do
	:: d_step { client[c].phase == IDLE -> begin(c); canonical() }
	:: d_step { client[c].phase == TRYING || client[c].phase == HOLDING -> finish(c); canonical() }
#if EXTENDS
	:: d_step {
		client[c].phase == HOLDING && client[c].extensions < EXTENDS &&
#ifndef EXTEND_EXPIRED
		client[c].left > 0 &&
#endif
		true -> extend(c); canonical()
	}
#endif
#ifdef UNFENCED_WORK
	:: d_step { client[c].left > 0 && !looked[c] -> looked[c] = true; printf("client %d: sees that it holds\n", c) }
	:: d_step { looked[c] -> looked[c] = false; printf("client %d: acts\n", c); assert(client[1 - c].left == 0) }
#endif
#ifdef UNFENCED_WORK
	:: client[c].phase == DONE && !looked[c] -> break
#else
	:: client[c].phase == DONE -> break
#endif
	od
}

/* ---- What a node does -------------------------------------------------------------------------------------------- */

inline put(n, token, ttl) {
	node[n].key = token;
	node[n].left = ttl + LATE
}

inline drop(n) {
	node[n].key = 0;
	node[n].left = 0
}

/* SET key token NX PX ttl (R2), and the reply sets out. R17: only a grant is a vote; R23: not from a barred node. */
inline executeSet(n, s) {
	node[n].claim[s] = node[n].claim[s] - SET;
	if
#ifdef NO_NX
	:: true ->
#else
	:: node[n].key == 0 ->
#endif
		put(n, TOKEN(s), TTL(OWNER(s)));
		printf("node %d: SET of client %d, attempt %d%s\n", n, OWNER(s), s % 2, (node[n].barred -> 'q' : ' '));
		if
		:: node[n].claim[s] == NOTHING && node[n].barred == 0 && client[OWNER(s)].phase == TRYING ->
			node[n].claim[s] = GRANT
		:: else
		fi
	:: else ->
#ifdef REFUSAL_COUNTED
		if
		:: node[n].claim[s] == NOTHING && node[n].barred == 0 && client[OWNER(s)].phase == TRYING ->
			node[n].claim[s] = GRANT
		:: else
		fi
#else
		skip
#endif
	fi
}

/* Compare and delete (R9). */
inline executeRelease(n, s) {
	node[n].claim[s] = node[n].claim[s] - RELEASE;
	if
#ifdef PLAIN_DEL
	:: node[n].key != 0 ->
#else
	:: node[n].key == TOKEN(s) ->
#endif
		drop(n);
		printf("node %d: release of client %d, attempt %d\n", n, OWNER(s), s % 2)
	:: else
	fi
}

#if EXTENDS
/* Compare and lengthen (R10); with HEAL, a missing key is set again. */
inline executeExtend(n, c) {
	node[n].extension[c] = NOTHING;
	if
	:: node[n].key == TOKEN(CURRENT(c)) ->
		if
#ifdef SHORTENS
		:: true
#else
		:: node[n].left < TTLX + LATE
#endif
			-> node[n].left = TTLX + LATE
		:: else
		fi;
		printf("node %d: extended for client %d%s\n", n, c, (node[n].barred -> 'q' : ' '));
		if
#ifdef EXTEND_BARRED
		:: true -> node[n].extension[c] = EXTENDED
#else
		:: node[n].barred == 0 -> node[n].extension[c] = EXTENDED
#endif
		:: else
		fi
#ifdef HEAL
	:: node[n].key == 0 ->
		put(n, TOKEN(CURRENT(c)), TTLX);
		printf("node %d: healed for client %d%s\n", n, c, (node[n].barred -> 'q' : ' '));
		if
#ifdef HEAL_BARRED
		:: true -> node[n].extension[c] = EXTENDED
#else
		:: node[n].barred == 0 -> node[n].extension[c] = EXTENDED
#endif
		:: else
		fi
#endif
	:: else
	fi
}
#endif

inline restart(n) {
	printf("node %d: restarts empty\n", n);
	crashes++;
	drop(n);
#ifdef NO_QUARANTINE
	node[n].barred = 0;
#else
	node[n].barred = WATCH - DRIFT; /* by the fastest clock */
#endif
	j = 0;
	do
	:: j < SLOTS ->
		if
		:: node[n].claim[j] == SET -> node[n].claim[j] = NOTHING
		:: node[n].claim[j] == SET + RELEASE -> node[n].claim[j] = RELEASE /* it is a debt, and will be paid (R8) */
		:: else
		fi;
		j++
	:: else -> break
	od;
	j = 0;
#if EXTENDS
	if :: node[n].extension[0] == EXTEND -> node[n].extension[0] = NOTHING :: else fi;
	if :: node[n].extension[1] == EXTEND -> node[n].extension[1] = NOTHING :: else fi
#endif
}

#if DEMOTIONS
inline demote(n) {
	printf("node %d: was a replica for a moment\n", n);
	demotions++;
	drop(n);
#ifdef DEMOTED_COUNTS
	skip
#else
	node[n].barred = WATCH - DRIFT
#endif
}
#endif

#define CAN_VOTE(n, s) (node[n].claim[s] == GRANT && client[OWNER(s)].phase == TRYING)

/* What may happen to one attempt at a node: its SET comes, the reply to it comes back, its release comes. */
#ifdef LATE_COUNTED
#define COUNTS(n, s) CAN_VOTE(n, s)
#else
#define COUNTS(n, s) (CAN_VOTE(n, s) && s == CURRENT(OWNER(s)))
#endif
#ifdef KEEPS_RELEASES
#define RELEASABLE(n, s) (node[n].claim[s] >= RELEASE)
#else
#define RELEASABLE(n, s) (node[n].claim[s] == RELEASE && node[n].key == TOKEN(s))
#endif
#define ATTEMPT(s) \
	:: d_step { node[n].claim[s] == SET || node[n].claim[s] == SET + RELEASE -> executeSet(n, s); canonical() } \
	:: d_step { COUNTS(n, s) -> node[n].claim[s] = NOTHING; count(OWNER(s)); canonical() } \
	:: d_step { RELEASABLE(n, s) -> executeRelease(n, s); canonical() }
#define EXTENSION(c) \
	:: d_step { node[n].extension[c] == EXTEND -> executeExtend(n, c); canonical() } \
	:: d_step { node[n].extension[c] == EXTENDED -> node[n].extension[c] = NOTHING; client[c].extended++; \
		if :: client[c].extended == QUORUM -> prolong(c) :: else fi; canonical() }

/* When all have finished, what comes is of no interest. */
#define ACTIVE (client[0].phase != DONE || client[1].phase != DONE)

proctype Node_(byte n) provided (ACTIVE) {
end:	do
	ATTEMPT(0)
#if TRIES0 > 1
	ATTEMPT(1)
#endif
	ATTEMPT(2)
#if TRIES1 > 1
	ATTEMPT(3)
#endif
#if EXTENDS
	EXTENSION(0)
	EXTENSION(1)
#endif
	/* The key ends, by a clock that may be fast. */
	:: d_step { node[n].key != 0 && node[n].left <= DRIFT + LATE -> drop(n); printf("node %d: key expires\n", n); canonical() }
#if CRASHES
	:: d_step { crashes < CRASHES -> restart(n); canonical() }
#endif
#if DEMOTIONS
	:: d_step { demotions < DEMOTIONS -> demote(n); canonical() }
#endif
#if LOSSES
	:: d_step { node[n].key != 0 && losses < LOSSES -> losses++; drop(n); printf("node %d: loses the key\n", n); canonical() }
#endif
	od
}

/* ---- Time -------------------------------------------------------------------------------------------------------- */

inline tick() {
	printf("tick\n");
	EACH_NODE(
		if
		:: node[i].left == 1 -> drop(i)
		:: node[i].left > 1 -> node[i].left--
		:: else
		fi;
		if :: node[i].barred > 0 -> node[i].barred-- :: else fi
	);
	EACH_CLIENT(
		if :: client[k].left > 0 -> client[k].left-- :: else fi;
		if :: client[k].phase == TRYING && client[k].age < TTL(k) -> client[k].age++ :: else fi;
#if EXTENDS
		if :: client[k].extending && client[k].asked < TTLX -> client[k].asked++ :: else fi;
#endif
		if :: HOPELESS(k) || LAPSED(k) -> finish(k) :: else fi
	)
}
proctype Time() {
end:	do
	:: d_step { ACTIVE -> tick(); canonical() }
	od
}

init {
	atomic {
		run Time();
		i = 0;
		do
		:: i < N -> run Node_(i); i++
		:: else -> break
		od;
		run Client_(0);
		run Client_(1)
	}
}
