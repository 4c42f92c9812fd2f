/*
 * Order: the numbers of fenced locks on one resource over N nodes (docs/internals/fencing.md). If a hold was
 * complete before another's attempt began, its number is the lower one; no two holds have the same number. That must be so whatever happens to time
 * and exclusion: keys vanish at any moment, so the lock's key is left out, and every node is free for every attempt.
 *
 * The world is made as bad as the conditions F1 to F4 allow:
 *
 *  - A message is delivered at any later time, in any order, or never. A request is executed even after its attempt has
 *    ended, but not by another process than the one it was sent to.
 *  - An attempt has any number, is complete at any moment after a quorum has granted it, and ends at any moment.
 *  - A node loses its memory at any moment, CRASHES times in all. It is then unsealed: it goes on as before, but its grants
 *    do not count. Its quarantine lasts until each attempt that was under way at the loss has ended (F4: there is no time
 *    here). After that, the highest numbers of other sealed nodes are read one after another, in any order and with
 *    anything between, and then the node is sealed with the highest of them as its floor (F3).
 *
 * What is bounded: attempts, numbers, losses. Attempts are interchangeable, so they begin in their order. Each rule can be
 * dropped by a macro; run.sh drops one at a time and expects a counterexample.
 */

#ifndef N
#define N 3
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 3
#endif
#ifndef NUMBERS
#define NUMBERS ATTEMPTS /* 1 to NUMBERS: only their order matters */
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#define MAJORITY (N / 2 + 1)
#ifndef QUORUM
#define QUORUM MAJORITY
#endif
#ifndef READS
#define READS (N - MAJORITY + 1) /* F3 */
#endif

typedef Node {
	byte last;     /* the highest number granted; 0 is none */
	byte asks;     /* attempts whose request is on its way, a bit for each */
#if CRASHES
	bool unsealed; /* F2: its grants do not count */
	byte waits;    /* attempts that its quarantine waits for */
	byte read;     /* nodes whose numbers were read for its floor */
	byte floor;    /* the highest of them */
#endif
};

#define IDLE 0
#define TRYING 1
#define OVER 2

typedef Attempt {
	byte phase;
	byte number;
	byte granted; /* nodes that granted and count, a bit for each */
	byte before;  /* the highest number of a hold that was complete when it began */
};

Node node[N];
Attempt attempt[ATTEMPTS];
byte crashes;
byte complete; /* the numbers of holds, a bit for each */
byte highest;  /* of them */

/* For computing within a step; zero between steps, so that they are no part of the state. */
byte i, j, k, swap;
int rank, other;

#define EACH(most, what) i = 0; do :: i < most -> what; i++ :: else -> break od; i = 0
#define HAS(set, k) (((set) >> (k)) & 1)
#define LEN(set) (HAS(set, 0) + HAS(set, 1) + HAS(set, 2) + HAS(set, 3) + HAS(set, 4))

/* ---- Attempts ---------------------------------------------------------------------------------------------------- */

inline begin(a, t) {
	attempt[a].phase = TRYING;
	attempt[a].number = t;
	attempt[a].before = highest;
	EACH(N, node[i].asks = node[i].asks | (1 << a));
	printf("attempt %d: number %d, to all nodes\n", a, t)
}

/* finish is the end of an attempt. No quarantine waits for it any longer. */
inline finish(a) {
	attempt[a].phase = OVER;
	attempt[a].granted = 0;
	attempt[a].before = 0;
#if CRASHES
	EACH(N, node[i].waits = node[i].waits & ~(1 << a));
#endif
	skip
}

inline hold(a) {
	printf("attempt %d: HOLDS with number %d\n", a, attempt[a].number);
	assert(attempt[a].number > attempt[a].before);  /* order */
	assert(!HAS(complete, attempt[a].number));      /* no number twice */
	complete = complete | (1 << attempt[a].number);
	if :: attempt[a].number > highest -> highest = attempt[a].number :: else fi;
	finish(a)
}

/* ---- Nodes ------------------------------------------------------------------------------------------------------- */

#if CRASHES
#define SEALED(n) (!node[n].unsealed)
#else
#define SEALED(n) true
#endif
#ifdef UNSEALED_COUNTED
#define COUNTS(n) true
#else
#define COUNTS(n) SEALED(n)
#endif
#ifdef EQUAL_GRANTED
#define GRANTS(n, a) (attempt[a].number >= node[n].last)
#else
#ifdef NOT_COMPARED
#define GRANTS(n, a) true
#else
#define GRANTS(n, a) (attempt[a].number > node[n].last)
#endif
#endif

inline vote(n, a) {
	if
	:: attempt[a].phase == TRYING && COUNTS(n) -> attempt[a].granted = attempt[a].granted | (1 << n)
	:: else
	fi
}

/* What acquire_fenced.lua does on a free node (F1). */
inline execute(n, a) {
	node[n].asks = node[n].asks & ~(1 << a);
#ifdef COUNTERS
	/* Another protocol: each node counts for itself, and a hold's number is the highest of its quorum's. */
	node[n].last++;
	if :: attempt[a].phase == TRYING && node[n].last > attempt[a].number -> attempt[a].number = node[n].last :: else fi;
	vote(n, a)
#else
	if
	:: GRANTS(n, a) ->
		if :: attempt[a].number > node[n].last -> node[n].last = attempt[a].number :: else fi;
		printf("node %d: grants number %d%s\n", n, attempt[a].number, (SEALED(n) -> ' ' : 'u'));
		vote(n, a)
	:: else ->
#ifdef STALE_COUNTED
		vote(n, a)
#else
		skip
#endif
	fi
#endif
}

#if CRASHES
inline lose(n) {
	printf("node %d: restarts empty\n", n);
	crashes++;
	node[n].last = 0;
	node[n].asks = 0;
	node[n].unsealed = true;
	node[n].waits = 0;
	node[n].read = 0;
	node[n].floor = 0;
#ifndef NO_QUARANTINE
	EACH(ATTEMPTS, if :: attempt[i].phase == TRYING -> node[n].waits = node[n].waits | (1 << i) :: else fi)
#endif
}

#ifdef FLOOR_AT_RESTART
#define MAY_READ(n) true
#else
#define MAY_READ(n) (node[n].waits == 0)
#endif
#ifdef FLOOR_FROM_UNSEALED
#define TELLS(m) true
#else
#define TELLS(m) SEALED(m)
#endif

/* One look at another node (F3). */
inline look(n, m) {
	node[n].read = node[n].read | (1 << m);
	if :: node[m].last > node[n].floor -> node[n].floor = node[m].last :: else fi;
	printf("node %d: number %d read from node %d\n", n, node[m].last, m)
}

inline seal(n) {
#ifndef NO_FLOOR
	if :: node[n].floor > node[n].last -> node[n].last = node[n].floor :: else fi;
#endif
	printf("node %d: sealed, floor %d\n", n, node[n].floor);
	node[n].unsealed = false;
	node[n].read = 0;
	node[n].floor = 0
}
#endif

/* ---- Fewer states ------------------------------------------------------------------------------------------------ */

/* A request that a node would refuse, now and later, is as good as lost, and so is the number of an attempt that is over
 * with all its requests. */
#if defined(COUNTERS) || defined(EQUAL_GRANTED) || defined(NOT_COMPARED) || defined(STALE_COUNTED)
#define FUTILE(n, a) false
#else
#define FUTILE(n, a) (attempt[a].number <= node[n].last)
#endif
#define ASKED(a) (HAS(node[0].asks, a) || HAS(node[1].asks, a) || HAS(node[2].asks, a) || HAS(node[N - 2].asks, a) || HAS(node[N - 1].asks, a))

inline tidy() {
	EACH(N,
		k = 0;
		do
		:: k < ATTEMPTS -> if :: FUTILE(i, k) -> node[i].asks = node[i].asks & ~(1 << k) :: else fi; k++
		:: else -> break
		od;
		k = 0
	);
	EACH(ATTEMPTS, if :: attempt[i].phase == OVER && !ASKED(i) -> attempt[i].number = 0 :: else fi)
}

/* canonical puts the nodes into an order, so that states which differ in nothing else are the same. */
#define EXCHANGE(field) swap = node[j].field; node[j].field = node[j + 1].field; node[j + 1].field = swap
#define EXCHANGE_BITS(set) if :: HAS(set, j) != HAS(set, j + 1) -> set = set ^ (3 << j) :: else fi
#define GRANTED(n) (HAS(attempt[0].granted, n) + 2 * HAS(attempt[1].granted, n) + 4 * HAS(attempt[ATTEMPTS - 1].granted, n))
#if CRASHES
#define RANK(n) (((((node[n].last * 16 + node[n].asks) * 8 + GRANTED(n)) * 2 + node[n].unsealed) * 16 + node[n].waits) * 8 + node[n].floor)
#else
#define RANK(n) ((node[n].last * 16 + node[n].asks) * 8 + GRANTED(n))
#endif

inline canonical() {
	tidy();
#ifdef SYMMETRY
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
				EXCHANGE(last); EXCHANGE(asks);
#if CRASHES
				EXCHANGE(unsealed); EXCHANGE(waits); EXCHANGE(floor); EXCHANGE(read);
				k = 0;
				do :: k < N -> EXCHANGE_BITS(node[k].read); k++ :: else -> break od;
#endif
				k = 0;
				do :: k < ATTEMPTS -> EXCHANGE_BITS(attempt[k].granted); k++ :: else -> break od;
				k = 0
			:: else
			fi;
			j++
		:: else -> break
		od;
		i--
	:: else -> break
	od;
	i = 0; j = 0; swap = 0; rank = 0; other = 0
#endif
}

/* ---- All that may happen ----------------------------------------------------------------------------------------- */

#define BEGIN(a, t) :: d_step { attempt[a].phase == IDLE && t <= NUMBERS && (a == 0 || attempt[(a + ATTEMPTS - 1) % ATTEMPTS].phase != IDLE) -> begin(a, t); canonical() }
#ifdef COUNTERS
#define BEGINS(a) BEGIN(a, 0)
#else
#define BEGINS(a) BEGIN(a, 1) BEGIN(a, 2) BEGIN(a, 3) BEGIN(a, 4)
#endif
#define ATTEMPT(a) BEGINS(a) \
	:: d_step { attempt[a].phase == TRYING && LEN(attempt[a].granted) >= QUORUM -> hold(a); canonical() } \
	:: d_step { attempt[a].phase == TRYING -> printf("attempt %d: ends without the lock\n", a); finish(a); canonical() }
#define REQUEST(n, a) :: d_step { HAS(node[n].asks, a) -> execute(n, a); canonical() }
#if ATTEMPTS == 2
#define REQUESTS(n) REQUEST(n, 0) REQUEST(n, 1)
#endif
#if ATTEMPTS == 3
#define REQUESTS(n) REQUEST(n, 0) REQUEST(n, 1) REQUEST(n, 2)
#endif
#if ATTEMPTS == 4
#define REQUESTS(n) REQUEST(n, 0) REQUEST(n, 1) REQUEST(n, 2) REQUEST(n, 3)
#endif
#if CRASHES
#define LOOK(n, m) :: d_step { node[n].unsealed && MAY_READ(n) && TELLS(m) && !HAS(node[n].read, m) && LEN(node[n].read) < READS -> look(n, m); canonical() }
#define LOSS(n) \
	:: d_step { crashes < CRASHES -> lose(n); canonical() } \
	:: d_step { node[n].unsealed && node[n].waits == 0 && LEN(node[n].read) >= READS -> seal(n); canonical() }
#if N == 3
#define LOOKS LOOK(0, 1) LOOK(0, 2) LOOK(1, 0) LOOK(1, 2) LOOK(2, 0) LOOK(2, 1)
#else
#define LOOKS LOOK(0, 1) LOOK(0, 2) LOOK(0, 3) LOOK(0, 4) LOOK(1, 0) LOOK(1, 2) LOOK(1, 3) LOOK(1, 4) \
	LOOK(2, 0) LOOK(2, 1) LOOK(2, 3) LOOK(2, 4) LOOK(3, 0) LOOK(3, 1) LOOK(3, 2) LOOK(3, 4) \
	LOOK(4, 0) LOOK(4, 1) LOOK(4, 2) LOOK(4, 3)
#endif
#else
#define LOOKS
#define LOSS(n)
#endif
#define NODE(n) REQUESTS(n) LOSS(n)

active proctype World() {
end:	do
	ATTEMPT(0)
	ATTEMPT(1)
#if ATTEMPTS > 2
	ATTEMPT(2)
#endif
#if ATTEMPTS > 3
	ATTEMPT(3)
#endif
	NODE(0)
	NODE(1)
	NODE(2)
#if N > 3
	NODE(3)
	NODE(4)
#endif
	LOOKS
	od
}
