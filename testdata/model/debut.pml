/*
 * Debut: clients open a set of masters in which no node carries a seal, or join
 * a deployment, while an earlier client has a lock. From when on may they count
 * a node's votes (R23, R29), if all that they know of its past is what it says
 * itself? The question is whether two clients can hold the lock at one time,
 * each within its validity.
 *
 * Client 0 is the earlier one. Its set was opened long ago: at first all its
 * nodes are sealed and trusted. A node that loses its keys is lost to it, since
 * exclusion.pml has what comes then. It asks for the lock only while a node that
 * both sets share has its seal. That is the premise of R30: where a client
 * cannot reach such a node, and goes on with others of its set, nothing is
 * promised.
 *
 * Clients 1 and 2 have the second set, which may be the same one. They do what
 * the rules allow, at any time and in any order:
 *
 *  - A client meets a node. From then on it watches the node's process.
 *  - It opens its set if it has met all its nodes and none carries a seal. They
 *    count as watched since the youngest of them started: by its own account,
 *    or, if it was promoted, since this client met it.
 *  - A client that sees a seal of its set takes over for how long it says that
 *    the node was watched, and nothing else.
 *  - It seals a node without a seal if it sees one on another. It has watched
 *    the node since it met it.
 *  - It asks for the lock if it sees seals on a quorum, and counts the votes of
 *    nodes that were watched for NEED.
 *
 * A node restarts empty (CRASHES times in all), is replaced by a promoted
 * replica that has neither the keys nor the seal (FAILOVERS), or is flushed
 * (FLUSHES). Only a restart shows in the uptime. A client notices at once, which
 * is the worst: the later it meets the node again, the later it counts it. Nodes
 * are flushed only before clients 1 and 2 have met them, since it takes seconds
 * until a flush is noticed, and so long nothing is promised. STEPS times the
 * clock of a node is set forward, which is not promised either.
 *
 * Time is a tick that may come at any moment, as in exclusion.pml. A lock is
 * valid for VALIDITY ticks from when it was asked for, and its keys live no
 * longer, which is the worst. All that is measured comes out too long: a watch
 * and an uptime by the drift, and an uptime, which has whole seconds, by MARGIN
 * besides. Times stop at OLD; older makes no difference.
 *
 * What is left out: the steps of an opening, and what comes between them
 * (deployment.pml), so a set is opened at once; SETs and replies that are slow
 * in coming back, releases and extensions (exclusion.pml); the age of a seal by
 * the node's account, which has a margin of its own; Init. Nodes of the same
 * sets are interchangeable, so states that differ in their order alone are one
 * state (canonical).
 *
 * Macros that choose the sets: none is {A, B, C} for all; ONE_SHARED, {A, B, C}
 * and {C, D, E}; TWO_SHARED, {A, B, C} and {B, C, D}. Macros that drop a rule:
 *
 *   AMONG_SEALED     uptime counts for a node without a seal among sealed ones
 *   OF_PROMOTED      uptime counts for a node that was promoted
 *   NO_MARGIN        uptime counts as it is shown
 *   EACH_FOR_ITSELF  at an opening a node counts since its own start
 *   OWN_WATCH        at an opening, as long as the client has watched the node
 *   JOINS_WATCHED    a client that joins counts what it watched before
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
#else
#define NODES 3
#define FIRST 7
#define SECOND 7
#define CLASS(n) 0
#endif
#define QUORUM 2

#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef FAILOVERS
#define FAILOVERS 0
#endif
#ifndef FLUSHES
#define FLUSHES 0
#endif
#ifndef STEPS
#define STEPS 0
#endif

#ifndef MAXTTL
#define MAXTTL 3
#endif
#define DRIFT 1
#define VALIDITY (MAXTTL - DRIFT)
#define NEED MAXTTL /* R23: MaxTTL * (1 + drift), by a clock that is fast by the drift */
#define OLD NEED
#define MARGIN 2 /* longer than the drift, or nothing would be missed without it */

#define BIT(mask, x) (((mask) >> (x)) & 1)
#define ON(mask, x) mask = mask | (1 << x)

#define SET(c) ((c) == 0 -> FIRST : SECOND)
#define HAS(c, n) BIT(SET(c), n)

/* Whose a seal is. A set that is opened again has a new one. */
#define EARLIER 1
#define NEW 2
#define OURS(c, seal) ((seal) == NEW -> SET(c) == SECOND : SET(c) == FIRST)

typedef Node {
	byte age;      /* since its process started */
	bool promoted; /* and then the age is not to be believed */
	byte key;      /* a client + 1, or 0 */
	byte seal;     /* whose, or 0 */
	byte stated;   /* by the seal: how long the node was watched */
	byte met;      /* clients that have met this process; not client 0 */
	byte marked;   /* clients that have seen this seal */
	byte watched[CLIENTS]; /* by each client; not by client 0 */
};

#define IDLE 0
#define TRYING 1
#define HOLDING 2
#define DONE 3

typedef Client {
	byte phase;
	byte left; /* of the validity, from when the lock was asked for */
	byte votes;
};

Node node[NODES];
Client client[CLIENTS];
byte crashes, failovers, flushes, steps;

/* For computing within a step; zero between steps. */
byte i, j, k, swap, since, proof;
int rank, other;

#define EACH_NODE(what) i = 0; do :: i < NODES -> what; i++ :: else -> break od; i = 0
#define EACH_OWN(c, what) EACH_NODE(if :: HAS(c, i) -> what :: else fi)
#define EACH_CLIENT(what) k = 0; do :: k < CLIENTS -> what; k++ :: else -> break od; k = 0
#define OLDER(age) if :: age < OLD -> age++ :: else fi

/* p(c, n) for all nodes n, with an operator between. */
#if NODES == 3
#define JOIN(op, p, c) (p(c, 0) op p(c, 1) op p(c, 2))
#elif NODES == 4
#define JOIN(op, p, c) (p(c, 0) op p(c, 1) op p(c, 2) op p(c, 3))
#else
#define JOIN(op, p, c) (p(c, 0) op p(c, 1) op p(c, 2) op p(c, 3) op p(c, 4))
#endif
#define ANY(p, c) JOIN(||, p, c)
#define ALL(p, c) JOIN(&&, p, c)
#define SUM(p, c) JOIN(+, p, c)

/* canonical puts the nodes that belong to the same sets into an order. */
#ifdef SYMMETRY
#if CLIENTS > 2
#define WATCHED(n) ((node[n].watched[2] * 8 + node[n].watched[1]) * 8 + node[n].watched[0])
#else
#define WATCHED(n) (node[n].watched[1] * 8 + node[n].watched[0])
#endif
#define RANK(n) (((((((WATCHED(n) * 8 + node[n].age) * 8 + node[n].stated) * 2 + node[n].promoted) * 4 + \
	node[n].key) * 4 + node[n].seal) * 8 + node[n].met) * 8 + node[n].marked)
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
				EXCHANGE(age); EXCHANGE(promoted); EXCHANGE(key); EXCHANGE(seal); EXCHANGE(stated);
				EXCHANGE(met); EXCHANGE(marked); EXCHANGE(watched[0]); EXCHANGE(watched[1]);
#if CLIENTS > 2
				EXCHANGE(watched[2]);
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

/* ---- From when a node counts --------------------------------------------- */

#ifdef OF_PROMOTED
#define BELIEVED(n) true
#else
#define BELIEVED(n) (!node[n].promoted)
#endif
#ifdef NO_MARGIN
#define UPTIME(n) (node[n].age + MARGIN < OLD -> node[n].age + MARGIN : OLD)
#else
#define UPTIME(n) node[n].age /* MARGIN too long, less the margin */
#endif

/* PROVED is how long a node has run at least, as far as c can tell. */
#define PROVED(c, n) (BELIEVED(n) -> UPTIME(n) : node[n].watched[c])
#define LARGER(a, b) ((a) > (b) -> (a) : (b))

#if defined(EACH_FOR_ITSELF)
#define DEBUT(c, n) PROVED(c, n)
#elif defined(OWN_WATCH)
#define DEBUT(c, n) LARGER(node[n].watched[c], since)
#else
#define DEBUT(c, n) since
#endif
#ifdef JOINS_WATCHED
#define TAKEN_OVER(c, n) LARGER(node[n].watched[c], node[n].stated)
#else
#define TAKEN_OVER(c, n) node[n].stated
#endif
#ifdef AMONG_SEALED
#define ADOPTED(c, n) PROVED(c, n)
#else
#define ADOPTED(c, n) node[n].watched[c]
#endif

/* ---- What a client does -------------------------------------------------- */

#define MET(c, n) BIT(node[n].met, c)
#define MARKED(c, n) BIT(node[n].marked, c)
#define OWN_MARKED(c, n) (HAS(c, n) && MARKED(c, n))
#define FREE(c, n) (!HAS(c, n) || (MET(c, n) && node[n].seal == 0))

inline meet(c, n) {
	ON(node[n].met, c);
	printf("client %d: meets %c\n", c, 65 + n)
}

/* putSeal seals a node that c has watched for proof. */
inline putSeal(c, n, whose) {
	node[n].watched[c] = proof;
	node[n].seal = whose;
	node[n].stated = proof;
	node[n].marked = 1 << c;
	printf("client %d: seals %c, watched for %d\n", c, 65 + n, proof);
	proof = 0
}

inline open(c) {
	since = OLD;
	EACH_OWN(c, if :: PROVED(c, i) < since -> since = PROVED(c, i) :: else fi);
	EACH_OWN(c, proof = DEBUT(c, i); putSeal(c, i, NEW));
	since = 0
}

inline see(c, n) {
	ON(node[n].marked, c);
	node[n].watched[c] = TAKEN_OVER(c, n);
	printf("client %d: sees the seal of %c, watched for %d\n", c, 65 + n, node[n].watched[c])
}

/* adopt seals a node for the deployment that c sees on another. */
inline adopt(c, n) {
	EACH_OWN(c, if :: MARKED(c, i) -> since = node[i].seal :: else fi);
	proof = ADOPTED(c, n);
	putSeal(c, n, since);
	since = 0
}

inline begin(c) {
	client[c].phase = TRYING;
	client[c].left = VALIDITY;
	printf("client %d: asks for the lock\n", c)
}

/* vote is the grant of a node that counts. The grants of others would only keep
 * the lock from other clients. */
inline vote(c, n) {
	node[n].key = c + 1;
	client[c].votes++;
	printf("client %d: vote of %c\n", c, 65 + n);
	if
	:: client[c].votes == QUORUM ->
		client[c].phase = HOLDING;
		printf("client %d: HOLDS, valid for another %d\n", c, client[c].left);
		EACH_CLIENT(assert(k == c || client[k].phase != HOLDING)) /* the promise */
	:: else
	fi
}

inline finish(c) {
	client[c].phase = DONE;
	client[c].left = 0;
	client[c].votes = 0;
	EACH_NODE(if :: node[i].key == c + 1 -> node[i].key = 0 :: else fi)
}

#define ASKS(c) (client[c].phase == IDLE && SUM(OWN_MARKED, c) >= QUORUM)
#define VOTES(c, n) (client[c].phase == TRYING && MARKED(c, n) && node[n].watched[c] >= NEED && node[n].key == 0)

/* When client 0 cannot have the lock any more, nothing is of interest. */
#define SHARED(c, n) (BIT(FIRST, n) && BIT(SECOND, n) && MARKED(c, n))
#define MAY_ASK (ASKS(0) && ANY(SHARED, 0))
#define ACTIVE (client[0].phase == TRYING || client[0].phase == HOLDING || MAY_ASK)

proctype Earlier() provided (ACTIVE) {
end:	do
	:: d_step { MAY_ASK -> begin(0); canonical() }
	od
}

proctype Later(byte c) provided (ACTIVE) {
end:	do
	:: d_step { ALL(FREE, c) -> open(c); canonical() }
	:: d_step { ASKS(c) -> begin(c); canonical() }
	od
}

proctype At(byte c, n) provided (ACTIVE) {
end:	do
	:: d_step { c > 0 && !MET(c, n) -> meet(c, n); canonical() }
	:: d_step { MET(c, n) && !MARKED(c, n) && node[n].seal != 0 && OURS(c, node[n].seal) -> see(c, n); canonical() }
	:: d_step { MET(c, n) && node[n].seal == 0 && ANY(OWN_MARKED, c) -> adopt(c, n); canonical() }
	:: d_step { VOTES(c, n) -> vote(c, n); canonical() }
	od
}

/* ---- What happens to a node ---------------------------------------------- */

/* lose takes the keys and the seal. Watches of the node begin again. */
inline lose(n) {
	node[n].key = 0;
	node[n].seal = 0;
	node[n].stated = 0;
	node[n].marked = 0;
	EACH_CLIENT(node[n].watched[k] = 0)
}

/* start replaces a node's process by one that no client has met. */
inline start(n, old, replica) {
	lose(n);
	node[n].met = 0;
	node[n].age = old;
	node[n].promoted = replica
}

proctype Node_(byte n) provided (ACTIVE) {
end:	do
#if CRASHES
	:: d_step { crashes < CRASHES ->
		crashes++;
		printf("node %c: restarts empty\n", 65 + n);
		start(n, 0, false);
		canonical()
	}
#endif
#if FAILOVERS
	:: d_step { failovers < FAILOVERS ->
		failovers++;
		printf("node %c: is replaced by a replica\n", 65 + n);
		start(n, OLD, true);
		canonical()
	}
#endif
#if FLUSHES
	:: d_step { flushes < FLUSHES && node[n].met == 0 ->
		flushes++;
		printf("node %c: is flushed\n", 65 + n);
		lose(n);
		canonical()
	}
#endif
#if STEPS
	:: d_step { steps < STEPS ->
		steps++;
		printf("node %c: its clock is set forward\n", 65 + n);
		node[n].age = OLD;
		canonical()
	}
#endif
	od
}

inline tick() {
	printf("tick\n");
	EACH_NODE(
		OLDER(node[i].age);
		if :: node[i].seal != 0 -> OLDER(node[i].stated) :: else fi;
		EACH_CLIENT(if :: MET(k, i) -> OLDER(node[i].watched[k]) :: else fi)
	);
	EACH_CLIENT(
		if :: client[k].left > 0 -> client[k].left-- :: else fi;
		if :: client[k].left == 0 && (client[k].phase == TRYING || client[k].phase == HOLDING) -> finish(k) :: else fi
	)
}

proctype Time() provided (ACTIVE) {
end:	do
	:: d_step { true -> tick(); canonical() }
	od
}

init {
	atomic {
		EACH_NODE(
			node[i].age = OLD;
			if
			:: HAS(0, i) -> proof = OLD; putSeal(0, i, EARLIER)
			:: else
			fi);
		run Time();
		run Earlier();
		i = 0;
		do
		:: i < NODES -> run Node_(i); i++
		:: else -> break
		od;
		k = 0;
		do
		:: k < CLIENTS ->
			if :: k > 0 -> run Later(k) :: else fi;
			i = 0;
			do
			:: i < NODES -> if :: HAS(k, i) -> run At(k, i) :: else fi; i++
			:: else -> break
			od;
			k++
		:: else -> break
		od;
		i = 0;
		k = 0
	}
}
