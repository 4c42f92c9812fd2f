/*
 * Readers and writers: clients compete for one read/write lock over N nodes (docs/internals/safety.md, section 10). The
 * question is whether a writer can be within its validity (R4) while another writer or a reader is, but for the reader that it
 * was before an upgrade and still is; and, with ORDERED, whether a lock that was upgraded or downgraded leaves a key
 * behind.
 *
 * Client 0 changes its lock: with UPGRADE a reader becomes a writer as well, with DOWNGRADE a writer becomes a reader.
 * The other clients have one lock each, and do not change it. The world is that of exclusion.pml:
 *
 *  - A message is delivered at any later time, in any order, or never. Only a release does not overtake what it undoes:
 *    that could leave a key behind, which refuses others until it ends, as the loss of their messages does. With
 *    ORDERED the commands for the two locks of client 0 come to a node in their order, or are lost, and its releases
 *    come in the end (R8).
 *  - A tick may come at any moment, so clients and nodes may pause anywhere. Ticks are the clients' time. A writer's
 *    key ends at any time from TTL - DRIFT to TTL, and so does the time of each reader, each as it likes: what is later
 *    only refuses. But a writer that becomes a reader may still find its key until TTL + DRIFT (LATE).
 *  - A node restarts without memory at any moment, CRASHES times in all, and is then quarantined (R23).
 *  - An attempt, or a lock, ends at any moment for any reason, and its release is on its way to all nodes from then on.
 *    An upgrade and its read lock end in any order.
 *
 * What is bounded: clients (two or three), one attempt of each, one change, restarts, and times, which are small
 * numbers of ticks. Left out: the mark of a waiting writer, which only refuses, as the loss of a message does; the life
 * of the set of readers, which is longer than that of each; and extensions, which are those of a plain lock
 * (exclusion.pml).
 * Nodes are interchangeable, so states that differ in their order alone are one state (canonical).
 *
 * Each rule can be dropped by a macro; run.sh drops one at a time and expects a counterexample.
 */

#ifndef N
#define N 3
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef TTL
#define TTL 3 /* in ticks */
#endif
#ifndef TTL2
#define TTL2 TTL /* of the last client's lock */
#endif
#ifndef DRIFT
#define DRIFT 1
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef WRITE_QUORUM
#define WRITE_QUORUM (N / 2 + 1)
#endif
#ifndef READ_QUORUM
#define READ_QUORUM (N / 2 + 1)
#endif
#ifndef WATCH
#define WATCH (TTL + DRIFT) /* R23 */
#endif

/* Client 0 has the locks 0 and 1, before the change and after; client 1 has lock 2, and client 2 has lock 3. */
#define LOCKS (CLIENTS + 1)
#define OWNER(l) (l < 2 -> 0 : l - 1)
#ifdef UPGRADE
#define FIRST_WRITES false
#else
#define FIRST_WRITES true
#endif
#ifdef SECOND_READS
#define SECOND_WRITES false
#else
#define SECOND_WRITES true
#endif
#ifdef THIRD_READS
#define THIRD_WRITES false
#else
#define THIRD_WRITES true
#endif
#define WRITES(l) (l == 0 -> FIRST_WRITES : (l == 1 -> !FIRST_WRITES : (l == 2 -> SECOND_WRITES : THIRD_WRITES)))
#define UPGRADED(l) (l == 1 && !FIRST_WRITES)
#define DOWNGRADED(l) (l == 1 && FIRST_WRITES)
#define LIFE(l) (l == LOCKS - 1 -> TTL2 : TTL)
#define QUORUM(l) (WRITES(l) -> WRITE_QUORUM : READ_QUORUM)
#define TOKEN(l) ((l) + 1)

/* A lock, as far as one node is concerned: what is on its way. */
#define NOTHING 0
#define ASK 1
#define GRANT 2
#define ADD 3 /* the second command of a downgrade that has two */
#define RELEASE 4 /* and a release besides */

typedef Node {
	byte writer;        /* a token, or 0 */
	byte left;          /* ticks until its key is gone at the latest */
	byte reader[LOCKS]; /* ticks until the reader's time is over at the latest, or 0 */
	byte barred;        /* ticks until its grants count again */
	byte claim[LOCKS];
};

#define IDLE 0
#define TRYING 1
#define HOLDING 2
#define OVER 3

typedef Lock {
	byte phase;
	byte age; /* of the attempt, while it is tried */
	byte votes;
	byte left; /* of the validity */
};

Node node[N];
Lock lock[LOCKS];
byte crashes;

/* A late key only refuses, as the loss of a message does. But a downgrade counts on a node that still has the key. */
#ifdef UPGRADE
#define LATE 0
#else
#define LATE DRIFT
#endif

/* For computing within a step; zero between steps, so that they are no part of the state. */
byte i, j, k, swap;
int rank, other;

#define EACH_LOCK(what) k = 0; do :: k < LOCKS -> what; k++ :: else -> break od; k = 0
#define EACH_NODE(what) i = 0; do :: i < N -> what; i++ :: else -> break od; i = 0

/* ---- What a client does ------------------------------------------------------------------------------------------ */

inline leave(l) {
	lock[l].phase = OVER;
	lock[l].age = 0;
	lock[l].votes = 0;
	lock[l].left = 0
}

inline begin(l) {
	printf("client %d: asks all nodes to let it in as a %c\n", OWNER(l), (WRITES(l) -> 'w' : 'r'));
	lock[l].phase = TRYING;
	EACH_NODE(node[i].claim[l] = ASK)
}

/* change is the begin of an upgrade or a downgrade. A downgrade ends the write lock before anything is sent. */
inline change() {
#if defined(DOWNGRADE) && !defined(KEPT_UNTIL_CONFIRMED)
	leave(0);
#endif
	begin(1)
}

/* hold is the vote that completes the quorum. R4: what is left of the TTL is more than nothing (tick). */
inline hold(l) {
	lock[l].phase = HOLDING;
	lock[l].left = LIFE(l) - lock[l].age - DRIFT;
	lock[l].age = 0;
	lock[l].votes = 0;
	EACH_NODE(if :: node[i].claim[l] == GRANT -> node[i].claim[l] = NOTHING :: else fi);
	printf("client %d: HOLDS as a %c, valid for another %d\n", OWNER(l), (WRITES(l) -> 'w' : 'r'), lock[l].left);
#ifdef KEPT_UNTIL_CONFIRMED
	if :: l == 1 -> leave(0) :: else fi;
#endif
	/* The promise. */
	EACH_LOCK(assert(k == l || lock[k].left == 0 || (!WRITES(k) && !WRITES(l)) || (k == 0 && UPGRADED(l))))
}

/* finish is the end of an attempt, or of a lock. R7: the release goes to all nodes. */
inline finish(l) {
	printf("client %d: ends as a %c, release to all nodes\n", OWNER(l), (WRITES(l) -> 'w' : 'r'));
	leave(l);
	EACH_NODE(
		if
		:: node[i].claim[l] == ASK || node[i].claim[l] == ADD -> node[i].claim[l] = node[i].claim[l] + RELEASE
		:: else -> node[i].claim[l] = RELEASE
		fi
	)
}

/* ---- What a node does -------------------------------------------------------------------------------------------- */

inline letWriterIn(n, l) {
	node[n].writer = TOKEN(l);
	node[n].left = LIFE(l) + LATE
}

inline letWriterOut(n) {
	node[n].writer = 0;
	node[n].left = 0
}

inline letReaderIn(n, l) {
#ifdef ONE_LIFE
	EACH_LOCK(if :: node[n].reader[k] > 0 -> node[n].reader[k] = LIFE(l) :: else fi);
#endif
	node[n].reader[l] = LIFE(l)
}

/* Whether a reader is in the way of a writer. */
#if CLIENTS > 2
#define READERS_BESIDE(n) (node[n].reader[1] > 0 || node[n].reader[2] > 0 || node[n].reader[3] > 0)
#else
#define READERS_BESIDE(n) (node[n].reader[1] > 0 || node[n].reader[2] > 0)
#endif
#ifdef READERS_IGNORED
#define FREE_OF_READERS(n, l) true
#else
#ifdef UPGRADE_BESIDE
#define FREE_OF_READERS(n, l) (UPGRADED(l) || !(READERS_BESIDE(n) || node[n].reader[0] > 0))
#else
#define FREE_OF_READERS(n, l) !(READERS_BESIDE(n) || (node[n].reader[0] > 0 && !UPGRADED(l)))
#endif
#endif
#ifdef WRITER_IGNORED
#define FREE_OF_WRITERS(n, l) (node[n].writer == 0 || !WRITES(l))
#else
#define FREE_OF_WRITERS(n, l) (node[n].writer == 0)
#endif

/* vote sets out on its way back. R17: only a grant is one; R23: not from a barred node. */
inline vote(n, l) {
	printf("node %d: lets client %d in as a %c%c\n", n, OWNER(l), (WRITES(l) -> 'w' : 'r'), (node[n].barred -> 'q' : ' '));
	if
	:: node[n].claim[l] == NOTHING && node[n].barred == 0 && lock[l].phase == TRYING -> node[n].claim[l] = GRANT
	:: else
	fi
}

/* What read.lua, write.lua and downgrade.lua do. */
inline execute(n, l) {
	node[n].claim[l] = node[n].claim[l] - ASK;
	if
	:: DOWNGRADED(l) && node[n].writer == TOKEN(0) ->
		letWriterOut(n);
#ifdef TWO_COMMANDS
		node[n].claim[l] = node[n].claim[l] + ADD;
		printf("node %d: lets client 0 out as a w\n", n)
#else
		letReaderIn(n, l);
		vote(n, l)
#endif
	:: !DOWNGRADED(l) && FREE_OF_WRITERS(n, l) && WRITES(l) && FREE_OF_READERS(n, l) -> letWriterIn(n, l); vote(n, l)
	:: !DOWNGRADED(l) && FREE_OF_WRITERS(n, l) && !WRITES(l) -> letReaderIn(n, l); vote(n, l)
	:: else
	fi
}

#ifdef TWO_COMMANDS
inline add(n, l) {
	node[n].claim[l] = node[n].claim[l] - ADD;
	letReaderIn(n, l);
	vote(n, l)
}
#endif

/* What a release finds: its key, or its reader; and the writer's key that the reader has come from. */
#ifdef READER_ONLY
#define FINDS_WRITER(n, l) (node[n].writer == TOKEN(l))
#else
#define FINDS_WRITER(n, l) (node[n].writer == TOKEN(l) || (DOWNGRADED(l) && node[n].writer == TOKEN(0)))
#endif
#ifdef UNDO_DROPS_READER
#define FINDS_OTHER(n, l) (UPGRADED(l) && node[n].reader[0] > 0)
#else
#define FINDS_OTHER(n, l) false
#endif
#define FINDS(n, l) (FINDS_WRITER(n, l) || node[n].reader[l] > 0 || FINDS_OTHER(n, l))

/* Compare and delete (R9), as release.lua and release_read.lua do. */
inline release(n, l) {
	printf("node %d: release of client %d as a %c\n", n, OWNER(l), (WRITES(l) -> 'w' : 'r'));
	node[n].claim[l] = NOTHING;
	if :: FINDS_WRITER(n, l) -> letWriterOut(n) :: else fi;
	if :: FINDS_OTHER(n, l) -> node[n].reader[0] = 0 :: else fi;
	node[n].reader[l] = 0
}

/* lose is the end of a command on its way. Its release is a debt, and will be paid (R8). */
inline lose(n, l) {
	printf("node %d: what client %d asked for is lost\n", n, OWNER(l));
	node[n].claim[l] = node[n].claim[l] & RELEASE
}

inline restart(n) {
	printf("node %d: restarts empty\n", n);
	crashes++;
	letWriterOut(n);
	node[n].barred = WATCH - DRIFT; /* by the fastest clock */
	EACH_LOCK(
		node[n].reader[k] = 0;
		if :: node[n].claim[k] & ASK -> lose(n, k) :: else fi /* not a reply */
	)
}

/* ---- Fewer states ------------------------------------------------------------------------------------------------ */

/* A node that has had all commands of client 0, which is done; and what must not be there then. */
#define SETTLED(n) (lock[0].phase == OVER && (lock[1].phase == OVER || lock[1].phase == IDLE) && \
	node[n].claim[0] == NOTHING && node[n].claim[1] == NOTHING)
#define LEFT_BEHIND(n) (node[n].writer == TOKEN(0) || node[n].writer == TOKEN(1) || \
	node[n].reader[0] > 0 || node[n].reader[1] > 0)

/* A release that finds nothing, now and later, is forgotten. */
#define OVERTAKES(n, l) (DOWNGRADED(l) && (node[n].claim[0] & ASK))

inline tidy() {
	EACH_NODE(
		EACH_LOCK(
			if
			:: node[i].claim[k] == RELEASE && !FINDS(i, k) && !OVERTAKES(i, k) -> node[i].claim[k] = NOTHING
			:: else
			fi
		);
#ifdef ORDERED
		assert(!SETTLED(i) || !LEFT_BEHIND(i)) /* the promise: nothing is left behind */
#endif
	)
}

/* canonical puts the nodes into an order, so that states which differ in nothing else are the same. */
#if CLIENTS > 2
#define LAST(field) * 8 + field[3]
#define EXCHANGE_LAST EXCHANGE(reader[3]); EXCHANGE(claim[3]);
#else
#define LAST(field)
#define EXCHANGE_LAST
#endif
#define KEYS(n) ((((((node[n].writer * 8 + node[n].left) * 8 + node[n].barred) * 8 + node[n].reader[0]) * 8 + \
	node[n].reader[1]) * 8 + node[n].reader[2]) LAST(node[n].reader))
#define CLAIMS(n) (((node[n].claim[0] * 8 + node[n].claim[1]) * 8 + node[n].claim[2]) LAST(node[n].claim))
#define EXCHANGE(field) swap = node[j].field; node[j].field = node[j + 1].field; node[j + 1].field = swap

inline canonical() {
	tidy();
#ifdef SYMMETRY
	i = N - 1;
	do
	:: i > 0 ->
		j = 0;
		do
		:: j < i ->
			rank = KEYS(j);
			other = KEYS(j + 1);
			if
			:: rank > other || (rank == other && CLAIMS(j) > CLAIMS(j + 1)) ->
				EXCHANGE(writer); EXCHANGE(left); EXCHANGE(barred);
				EXCHANGE(reader[0]); EXCHANGE(reader[1]); EXCHANGE(reader[2]);
				EXCHANGE(claim[0]); EXCHANGE(claim[1]); EXCHANGE(claim[2]);
				EXCHANGE_LAST
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

/* ---- Time -------------------------------------------------------------------------------------------------------- */

inline tick() {
	printf("tick\n");
	EACH_NODE(
		if
		:: node[i].left == 1 -> letWriterOut(i)
		:: node[i].left > 1 -> node[i].left--
		:: else
		fi;
		if :: node[i].barred > 0 -> node[i].barred-- :: else fi;
		EACH_LOCK(if :: node[i].reader[k] > 0 -> node[i].reader[k]-- :: else fi)
	);
	/* What has no validity left is over at once: its release may take its time. */
	j = 0;
	do
	:: j < LOCKS ->
		if :: lock[j].left > 0 -> lock[j].left-- :: else fi;
		if :: lock[j].phase == TRYING -> lock[j].age++ :: else fi;
		if
		:: lock[j].phase == TRYING && lock[j].age >= LIFE(j) - DRIFT -> finish(j)
		:: lock[j].phase == HOLDING && lock[j].left == 0 -> finish(j)
		:: else
		fi;
		j++
	:: else -> break
	od;
	j = 0
}

/* ---- All that may happen ----------------------------------------------------------------------------------------- */

/* When all have finished, what comes is of no interest; but what is left behind is. */
#define DONE(l) (lock[l].phase == OVER)
#ifdef ORDERED
#define ACTIVE true
#define IN_ORDER(n, l) (l != 1 || !(node[n].claim[0] & ASK))
#else
#if CLIENTS > 2
#define ACTIVE !(DONE(0) && (DONE(1) || lock[1].phase == IDLE) && DONE(2) && DONE(3))
#else
#define ACTIVE !(DONE(0) && (DONE(1) || lock[1].phase == IDLE) && DONE(2))
#endif
#define IN_ORDER(n, l) true
#endif

#define LOCK(l) \
	:: d_step { l != 1 && lock[l].phase == IDLE -> begin(l); canonical() } \
	:: d_step { lock[l].phase == TRYING || lock[l].phase == HOLDING -> finish(l); canonical() }
#ifdef TWO_COMMANDS
#define SECOND(n, l) :: d_step { ACTIVE && (node[n].claim[l] & 3) == ADD -> add(n, l); canonical() }
#else
#define SECOND(n, l)
#endif
#ifdef ORDERED
#define LOSS(n, l) :: d_step { node[n].claim[l] & ASK -> lose(n, l); canonical() }
#else
#define LOSS(n, l)
#endif
#define CLAIM(n, l) \
	:: d_step { ACTIVE && (node[n].claim[l] & 3) == ASK && IN_ORDER(n, l) -> execute(n, l); canonical() } \
	:: d_step { ACTIVE && node[n].claim[l] == GRANT && lock[l].phase == TRYING -> \
		node[n].claim[l] = NOTHING; \
		lock[l].votes++; \
		if :: lock[l].votes == QUORUM(l) -> hold(l) :: else fi; \
		canonical() } \
	:: d_step { ACTIVE && node[n].claim[l] == RELEASE && IN_ORDER(n, l) && FINDS(n, l) -> release(n, l); canonical() } \
	:: d_step { ACTIVE && node[n].reader[l] > 0 && node[n].reader[l] <= DRIFT -> \
		node[n].reader[l] = 0; printf("node %d: the time of reader %d ends\n", n, OWNER(l)); canonical() } \
	SECOND(n, l) LOSS(n, l)
#if CLIENTS > 2
#define CLAIMED(n) CLAIM(n, 0) CLAIM(n, 1) CLAIM(n, 2) CLAIM(n, 3)
#else
#define CLAIMED(n) CLAIM(n, 0) CLAIM(n, 1) CLAIM(n, 2)
#endif
#if CRASHES
#define CRASH(n) :: d_step { ACTIVE && crashes < CRASHES -> restart(n); canonical() }
#else
#define CRASH(n)
#endif
#define NODE(n) CLAIMED(n) CRASH(n) \
	:: d_step { ACTIVE && node[n].writer != 0 && node[n].left <= DRIFT + LATE -> \
		letWriterOut(n); printf("node %d: the writer's key expires\n", n); canonical() }

active proctype World() {
end:	do
	LOCK(0)
	LOCK(1)
	LOCK(2)
#if CLIENTS > 2
	LOCK(3)
#endif
	:: d_step { lock[0].phase == HOLDING && lock[1].phase == IDLE -> change(); canonical() }
	NODE(0)
	NODE(1)
	NODE(2)
	:: d_step { ACTIVE -> tick(); canonical() }
	od
}
