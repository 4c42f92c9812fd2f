/*
 * Failover: clients compete for one resource over N nodes. FAILING of them are
 * failover nodes: one vote each, behind which BEHIND servers change places. The
 * question is that of exclusion.pml: can two clients hold the lock at one time,
 * each within its validity?
 *
 * The world:
 *
 *  - Of the servers behind a node one is the primary at first. A replica has
 *    the data of its primary as they were at some moment: sync comes at any
 *    time or never, so any suffix of the writes may be missing when it is
 *    promoted. Expiry is replicated as a date: by a clock that is behind, a key
 *    lives SKEW longer. One that ends earlier is like one that was not
 *    replicated.
 *  - At a promotion (FAILOVERS in all) the former primary accepts writes for
 *    another DOUBLE ticks. Then it refuses them. It may be demoted at any time,
 *    and be promoted again: the same process, with other keys or its old ones.
 *  - A server restarts (CRASHES in all), with its keys or empty. It stays what
 *    it was, or is a replica then.
 *  - A server stops (STOPS in all) and goes on later, with what came meanwhile.
 *    While it is stopped, the time in which it accepts writes does not pass.
 *  - The other nodes are lone masters that keep their keys. exclusion.pml has
 *    those that do not.
 *  - Each command of a client goes to any server that accepts writes: what the
 *    client was told of the present primary may be old. The command comes at
 *    any later time or never, and so does its reply. What was sent to one
 *    server is not executed by another.
 *  - Ticks, drift, and keys that end early or late are those of exclusion.pml.
 *    How long ago a server was promoted, its seal says at any time, as if it
 *    were met and sealed at once. All clients share one watch, which begins at
 *    the promotion, and after a silence. A client that meets the server later
 *    counts it later, so this is the most dangerous case.
 *  - With STARTS each client has a watch of its own. It begins when the client
 *    meets a server: at any time, so also long after the promotion, or while
 *    the server is a former primary. Or it has lasted from the beginning.
 *  - With HOST, client 0 and the first server are on one host: when it is
 *    suspended, both stop. Validity passes all the same (R4), and no watch does.
 *  - The release of a lock that is over may come to any server, at any time and
 *    more than once. Nothing else of it could do more than refuse others, so it
 *    is forgotten.
 *
 * The rule, with L as the longest time for which a former primary accepts
 * writes after a promotion:
 *
 *  (a) A server is a process and a replication history. If either is new, it is
 *      another server. If it was silent for more than GAP, it is met anew. That
 *      goes for each command: what it executes after that does not count.
 *  (b) A SET counts if, when it was sent, two times had passed. MAXTTL + DRIFT
 *      + L, since the server first replied as a primary to any client: so locks
 *      of former primaries have ended. Its own seal is proof of that; its
 *      uptime and the seal of another server are none. And L, since this client
 *      met it or it was silent: so it is no former primary that was stopped.
 *  (c) Before that, an extension counts if, when it is sent, this node's own
 *      vote for the lock still runs, and runs until L after the server was met.
 *      The vote may be of another server. A healing counts likewise.
 *  (d) A release is owed to the process that got the SET, and so is the fence
 *      before it (R8). It ends with an answer of that process, or with the
 *      process. ORPHANS asks if a server that counts has a key which no release
 *      will remove.
 *
 * With MAJORITY, a primary needs one of its two replicas rather than both. So a
 * former one goes on for as long as the other replica stays with it, and DOUBLE
 * ticks longer. Then the rule must have this besides:
 *
 *  (e) A server is met when a replica follows it, not before. A replica follows
 *      one server at a time, so that of the former primary has left it by then.
 *
 * What is assumed: L is at least DOUBLE, and with stops DOUBLE + GAP; a server
 * that refuses writes accepts them again only as another server; the drift.
 *
 * What is left out: lone masters that restart beside a failover; clients with
 * another L, which are the run no-bound; how L is found; fencing numbers; the
 * deployment of a new primary (R30). Clients are interchangeable, so states
 * that differ in their order alone are one state (canonical).
 *
 * Macros that drop a part of the rule:
 *
 *   WAIT=…                (b) the time since the promotion lacks L or MAXTTL
 *   RUN_ID_ONLY           (a) a server is its process
 *   REPLID_ONLY           (a) a server is its replication history
 *   DECIDED_BEFORE        (a) what it was when the command was sent counts
 *   SILENCE_IGNORED       (a) a watch goes through any silence
 *   ASLEEP                (a) a client notices no silence of its own host
 *   UNWATCHED             (b) the server's own seal is enough, without a watch
 *   WATCH_OF_NODE         (b) the watch may be of another server of the node
 *   SEAL_TRUSTED          (b) the seal that came by replication is proof
 *   SEAL_OF_PROCESS       (b) it is, if it names the process
 *   UPTIME                (b) the age of the process is proof
 *   CLOCK_OF_DISCOVERY    (b) it is met when clients hear of it
 *   DECIDED_AT_REPLY      (b) a SET counts if the time is over at the reply
 *   EXTEND_AT_ONCE        (c) an extension counts if the key is there
 *   EXTEND_BY_TIME        (c) from L after the server was met, or if the lock
 *                         is valid until then
 *   VOTE_OF_LOCK          (c) the node's vote runs as long as the lock
 *   HEAL_AT_ONCE          (c) a healing counts
 *   PAID_ELSEWHERE        (d) any server's answer settles a release
 *   FENCED_ELSEWHERE      (d) the fence goes to another server
 *   SETTLED_BY_PROMOTION  (d) a new replication history settles it
 *   UNFOLLOWED            (e) it is met when it is promoted
 *   FENCE_LIFTED          a server that refused accepts writes again
 *   RETURNS               with MAJORITY, so does a former primary to which a
 *                         replica returns
 */

#ifndef N
#define N 1
#endif
#ifndef FAILING
#define FAILING 1 /* failover nodes among them: 1 or 2 */
#endif
#ifndef BEHIND
#define BEHIND 2 /* servers behind each: 2, or 3 behind a single one */
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef TTL
#define TTL 3
#endif
#ifndef TTLX
#define TTLX TTL /* of extensions */
#endif
#define DRIFT 1
#ifndef L
#define L 3 /* as the clients know it */
#endif
#ifndef DOUBLE
#define DOUBLE L /* as it is */
#endif
#ifndef SKEW
#define SKEW 0
#endif
#ifndef TRIES
#define TRIES 1
#endif
#ifndef EXTENDS
#define EXTENDS 0
#endif
#ifndef FAILOVERS
#define FAILOVERS 1
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef STOPS
#define STOPS 0
#endif
#ifndef GAP
#define GAP 1 /* the longest silence that a watch goes through */
#endif
#define QUORUM (N / 2 + 1)
#define MAXTTL (TTL > TTLX -> TTL : TTLX)

/* R23, by the fastest clock. */
#ifndef WAIT
#define WAIT (MAXTTL + L)
#endif

/* The first servers are behind the failover nodes. */
#define SERVERS (FAILING * BEHIND + N - FAILING)
#define LONE(s) ((s) >= FAILING * BEHIND)
#define NODE(s) ((s) / BEHIND)
#define FIRST(s) (NODE(s) * BEHIND)
#define BESIDE(s, t) ((s) != (t) && !LONE(t) && NODE(s) == NODE(t))
#define NAME(s) (65 + s)
#define TOKEN(c) (2 * (c) + client[c].attempt + 1)
#define OWNER(token) (((token) - 1) / 2)

/* A server's role. */
#define REPLICA 0
#define PRIMARY 1
#define FORMER 2 /* and still accepts writes */
#define FENCED 3 /* a former primary that refuses them */
#define ACCEPTS(s) ((server[s].role == PRIMARY || server[s].role == FORMER) && RUNS(s))
#if STOPS
#define RUNS(s) (!server[s].stopped)
#else
#define RUNS(s) true
#endif

#ifdef HOST
#define AWAKE(c) (c != 0 || RUNS(0))
#else
#define AWAKE(c) true
#endif
#ifdef ASLEEP
#define NOTICES(c) (c != 0)
#else
#define NOTICES(c) true
#endif

typedef Server {
	byte role;
	byte grace; /* ticks for which a former primary still accepts writes */
	byte key;   /* a token, or 0 */
	byte left;  /* ticks until the key is gone at the latest */
	byte wait;  /* ticks until it was promoted long enough ago */
#ifndef STARTS
	byte watch; /* ticks until it was watched for L */
#endif
#if STOPS
	bool stopped;
	byte silent; /* ticks for which it has been stopped */
#endif
#if defined(SEAL_TRUSTED) || defined(SEAL_OF_PROCESS)
	byte seal; /* 1 + the server that it names, or 0 */
#endif
#ifdef UPTIME
	bool young; /* it has restarted */
#endif
#ifdef MAJORITY
	byte follows; /* 1 + the server that a replica follows */
#endif
#if defined(RUN_ID_ONLY) || defined(CLOCK_OF_DISCOVERY)
	bool known; /* clients know the process, or have heard of it */
#endif
};

/* A claim, as far as one server is concerned: what is on its way. */
#define NOTHING 0
#define SET 1
#define SET_IDLE 2 /* its grant will not count */
#define GRANT 3
#define GRANT_IDLE 4

/* An extension, likewise. */
#define EXTEND 1
#define EXTEND_IDLE 2
#define EXTENDED 3

/* A client's phase. */
#define IDLE 0
#define TRYING 1
#define HOLDING 2
#define DONE 3

typedef Client {
	byte phase;
	byte attempt;
	byte age; /* of the attempt, by its own clock, while it is tried */
	byte left; /* of the validity */
	byte claim[SERVERS];
#ifdef STARTS
	byte watch[SERVERS]; /* ticks until it has watched each for L, or UNMET */
#endif
#if N > 1
	byte votes;
	bool voted[FAILING]; /* the failover nodes among them */
	byte own[FAILING];   /* what is left of their votes for the lock */
#endif
#if EXTENDS
	byte extensions;
	bool extending;
	byte asked; /* the age of the extension that is under way */
	byte extension[SERVERS];
	bool interrupted; /* another client held the lock since it was granted */
#endif
#ifdef ORPHANS
	byte owed; /* 1 + the server that a release is owed to, or 0 */
#endif
};

Server server[SERVERS];
Client client[CLIENTS];
byte failovers;
#if CRASHES
byte crashes;
#endif
#if STOPS
byte stops;
#endif

#ifdef STARTS
#define UNMET (L + 1)
#define WATCH(c, s) client[c].watch[s]
#define MET(c, s) (WATCH(c, s) != UNMET)
#else
#define WATCH(c, s) server[s].watch
#define MET(c, s) true
#endif
/* COUNTS says if a SET counts that c sends now (b). */
#ifdef UNWATCHED
#define COUNTS(c, s) (server[s].wait == 0)
#else
#define COUNTS(c, s) (server[s].wait == 0 && WATCH(c, s) == 0)
#endif

#if N > 1
#define OWN(c, s) client[c].own[NODE(s)]
#else
#define OWN(c, s) client[c].left
#endif

#if EXTENDS
#define LATE DRIFT
#else
#define LATE 0 /* see exclusion.pml */
#endif

/* For computing within a step; zero between steps. */
byte f, i, j, k, last, swap;
int rank, other, rank2, other2;

#define EACH_CLIENT(what) k = 0; do :: k < CLIENTS -> what; k++ :: else -> break od; k = 0
#define EACH_FAILING(what) f = 0; do :: f < FAILING -> what; f++ :: else -> break od; f = 0
#define EACH_SERVER(what) i = 0; do :: i < SERVERS -> what; i++ :: else -> break od; i = 0

/* canonical puts the clients into an order. */
#if defined(SYMMETRY) && !defined(HOST)
#if EXTENDS
#define EXTENSION(c) rank2 = rank2 * 4 + client[c].extension[i]
#define PROGRESS(c) ((client[c].extensions * 2 + client[c].extending) * 8 + client[c].asked) * 2 + client[c].interrupted
#else
#define EXTENSION(c) skip
#define PROGRESS(c) 0
#endif
#ifdef ORPHANS
#define RANK_OWED(c) * 4 + client[c].owed
#else
#define RANK_OWED(c)
#endif
#if N > 1
#define VOTES(c) client[c].votes; \
	EACH_FAILING(rank2 = (rank2 * 2 + client[c].voted[f]) * 8 + client[c].own[f])
#else
#define VOTES(c) 0
#endif
#ifdef STARTS
#define WATCHES(c) EACH_SERVER(if :: LONE(i) :: else -> rank2 = rank2 * (L + 2) + client[c].watch[i] fi)
#else
#define WATCHES(c) skip
#endif
#define RANK(c) \
	rank = (((client[c].phase * 2 + client[c].attempt) * 16 + client[c].age) * 16 + client[c].left) RANK_OWED(c); \
	rank2 = VOTES(c); \
	rank2 = rank2 * 96 + PROGRESS(c); \
	WATCHES(c); \
	EACH_SERVER(rank = rank * 5 + client[c].claim[i]; EXTENSION(c))
#define EXCHANGE(field) swap = client[j].field; client[j].field = client[j + 1].field; client[j + 1].field = swap
/* Tokens are named for their clients. */
#define RENAME(s) if \
	:: server[s].key != 0 && OWNER(server[s].key) == j -> server[s].key = server[s].key + 2 \
	:: server[s].key != 0 && OWNER(server[s].key) == j + 1 -> server[s].key = server[s].key - 2 \
	:: else \
	fi
inline canonical() {
	last = CLIENTS - 1;
	do
	:: last > 0 ->
		j = 0;
		do
		:: j < last ->
			RANK(j + 1);
			other = rank;
			other2 = rank2;
			RANK(j);
			if
			:: rank > other || (rank == other && rank2 > other2) ->
				EXCHANGE(phase); EXCHANGE(attempt); EXCHANGE(age); EXCHANGE(left);
#if N > 1
				EXCHANGE(votes);
				EACH_FAILING(EXCHANGE(voted[f]); EXCHANGE(own[f]));
#endif
#if EXTENDS
				EXCHANGE(extensions); EXCHANGE(extending); EXCHANGE(asked); EXCHANGE(interrupted);
				EACH_SERVER(EXCHANGE(extension[i]));
#endif
#ifdef ORPHANS
				EXCHANGE(owed);
#endif
#ifdef STARTS
				EACH_SERVER(EXCHANGE(watch[i]));
#endif
				EACH_SERVER(EXCHANGE(claim[i]); RENAME(i))
			:: else
			fi;
			j++
		:: else -> break
		od;
		last--
	:: else -> break
	od;
	j = 0; swap = 0; rank = 0; other = 0; rank2 = 0; other2 = 0
}
#else
inline canonical() { skip }
#endif

/* ---- What a client does -------------------------------------------------- */

/* begin sends SET to one server of each failover node, and to the lone masters
 * (R2). Now it is decided if a grant will count (b). */
inline begin(c, s, t) {
	client[c].phase = TRYING;
	client[c].claim[s] = (COUNTS(c, s) -> SET : SET_IDLE);
#if FAILING > 1
	client[c].claim[t] = (COUNTS(c, t) -> SET : SET_IDLE);
#endif
#if N > 1
	EACH_SERVER(if :: LONE(i) -> client[c].claim[i] = SET :: else fi);
#endif
#ifdef ORPHANS
	client[c].owed = s + 1;
#endif
	if
	:: COUNTS(c, s) -> printf("client %d: attempt %d, SET to %c\n", c, client[c].attempt, NAME(s))
	:: else -> printf("client %d: attempt %d, SET to %c, which does not count\n", c, client[c].attempt, NAME(s))
	fi
}

/* hold is the vote that completes the quorum (R4). */
inline hold(c) {
	rank = TTL - client[c].age - DRIFT;
	if
	:: rank > 0 ->
		client[c].phase = HOLDING;
		client[c].left = rank;
		client[c].age = 0;
#if N > 1
		EACH_FAILING(client[c].own[f] = (client[c].voted[f] -> rank : 0); client[c].voted[f] = false);
		client[c].votes = 0;
		EACH_SERVER(if :: client[c].claim[i] >= GRANT -> client[c].claim[i] = NOTHING :: else fi);
#endif
		printf("client %d: HOLDS, valid for another %d\n", c, client[c].left);
		EACH_CLIENT(
			assert(k == c || client[k].left == 0); /* the promise */
#if EXTENDS
			client[k].interrupted = (k != c && client[k].phase == HOLDING)
#endif
		)
	:: else
	fi;
	rank = 0
}

inline count(c, s) {
	printf("client %d: vote of %c\n", c, NAME(s));
#if N > 1
	client[c].votes++;
	if :: !LONE(s) -> client[c].voted[NODE(s)] = true :: else fi;
	if
	:: client[c].votes == QUORUM -> hold(c)
	:: else
	fi
#else
	hold(c)
#endif
}

/* finish is the end of an attempt, or of a lock (R7). */
inline finish(c) {
	printf("client %d: attempt %d is over\n", c, client[c].attempt);
	client[c].age = 0;
	client[c].left = 0;
	EACH_SERVER(
#ifdef ORPHANS
		if
		:: client[c].claim[i] >= GRANT -> client[c].claim[i] = NOTHING
		:: client[c].claim[i] == SET -> client[c].claim[i] = SET_IDLE
		:: else
		fi
#else
		client[c].claim[i] = NOTHING
#endif
	);
#if N > 1
	client[c].votes = 0;
	EACH_FAILING(client[c].voted[f] = false; client[c].own[f] = 0);
#endif
#if EXTENDS
	client[c].extensions = 0;
	client[c].extending = false;
	client[c].asked = 0;
	client[c].interrupted = false;
	EACH_SERVER(client[c].extension[i] = NOTHING);
#endif
	if
	/* With another token (R3). */
	:: client[c].attempt < TRIES - 1 -> client[c].attempt++; client[c].phase = IDLE
	:: else -> client[c].phase = DONE
	fi
}

#if EXTENDS
/* COUNTING says if an extension that is sent now will count (c). The watch says
 * how long another server may still accept writes. */
#if defined(EXTEND_AT_ONCE)
#define COUNTING(c, s) EXTEND
#elif defined(EXTEND_BY_TIME)
#define COUNTING(c, s) (client[c].left >= WATCH(c, s) -> EXTEND : EXTEND_IDLE)
#else
#define OUTLASTS(c, s) (OWN(c, s) > 0 && OWN(c, s) >= WATCH(c, s))
#define COUNTING(c, s) (COUNTS(c, s) || OUTLASTS(c, s) -> EXTEND : EXTEND_IDLE)
#endif

/* What is still on its way of an extension before is lost. */
inline extend(c, s, t) {
	client[c].extensions++;
	client[c].extending = true;
	client[c].asked = 0;
	EACH_SERVER(client[c].extension[i] = NOTHING);
	client[c].extension[s] = COUNTING(c, s);
#if FAILING > 1
	client[c].extension[t] = COUNTING(c, t);
#endif
#if N > 1
	client[c].votes = 0;
	EACH_FAILING(client[c].voted[f] = false);
	EACH_SERVER(if :: LONE(i) -> client[c].extension[i] = EXTEND :: else fi);
#endif
	if
	:: client[c].extension[s] == EXTEND_IDLE -> printf("client %d: EXTEND to %c, which will not count\n", c, NAME(s))
	:: else -> printf("client %d: EXTEND to %c\n", c, NAME(s))
	fi
}

/* prolong is the vote that completes the quorum for an extension. */
inline prolong(c) {
	rank = TTLX - client[c].asked - DRIFT;
	client[c].extending = false;
	client[c].asked = 0;
	if
	:: client[c].left > 0 && rank > client[c].left -> /* R10 */
		client[c].left = rank;
		printf("client %d: EXTENDED, valid for another %d\n", c, client[c].left);
		EACH_CLIENT(assert(k == c || client[k].left == 0)); /* the promise */
		assert(!client[c].interrupted);                     /* and without a gap */
#if N > 1
#ifdef VOTE_OF_LOCK
		EACH_FAILING(if :: client[c].voted[f] || client[c].own[f] > 0 -> client[c].own[f] = rank :: else fi)
#else
		EACH_FAILING(if :: client[c].voted[f] -> client[c].own[f] = rank :: else fi)
#endif
#endif
	:: else
	fi;
#if N > 1
	client[c].votes = 0;
	EACH_FAILING(client[c].voted[f] = false);
	EACH_SERVER(if :: client[c].extension[i] == EXTENDED -> client[c].extension[i] = NOTHING :: else fi);
#endif
	rank = 0
}

inline countExtension(c, s) {
	client[c].extension[s] = NOTHING;
#if N > 1
	client[c].votes++;
	if :: !LONE(s) -> client[c].voted[NODE(s)] = true :: else fi;
	if
	:: client[c].votes == QUORUM -> prolong(c)
	:: else
	fi
#else
	prolong(c)
#endif
}
#endif

/* When no second client can hold the lock any more, nothing is of interest. */
#ifdef ORPHANS
#define ACTIVE true
#elif CLIENTS == 2
#define ACTIVE (client[0].phase != DONE && client[1].phase != DONE)
#else
#define ACTIVE ((client[0].phase != DONE) + (client[1].phase != DONE) + (client[2].phase != DONE) >= 2)
#endif

proctype Client_(byte c) provided (ACTIVE) {
end:	do
	:: d_step { AWAKE(c) && (client[c].phase == TRYING || client[c].phase == HOLDING) -> finish(c); canonical() }
	od
}

#ifdef STARTS
/* meet is the first reply of a primary to c (b). */
inline meet(c, s) {
	WATCH(c, s) = L;
#ifdef WATCH_OF_NODE
	EACH_SERVER(if :: BESIDE(s, i) && MET(c, i) && WATCH(c, i) < WATCH(c, s) -> WATCH(c, s) = WATCH(c, i) :: else fi);
#endif
	printf("client %d: meets %c\n", c, NAME(s))
}
#endif

/* To is what c sends to server s of the first failover node, and server t of
 * the second. */
#if FAILING > 1
#define REACHES(c, s, t) (AWAKE(c) && ACCEPTS(s) && MET(c, s) && MET(c, t))
#else
#define REACHES(c, s, t) (AWAKE(c) && ACCEPTS(s) && MET(c, s))
#endif
#define EXTENDS_NOW(c) (client[c].phase == HOLDING && client[c].extensions < EXTENDS && client[c].left > 0)
proctype To(byte c, s, t) provided (ACTIVE) {
end:	do
#ifdef STARTS
	:: d_step { AWAKE(c) && client[c].phase != DONE && !MET(c, s) && ACCEPTS(s) -> meet(c, s); canonical() }
#if FAILING > 1
	:: d_step { AWAKE(c) && client[c].phase != DONE && !MET(c, t) && ACCEPTS(t) -> meet(c, t); canonical() }
#endif
#endif
	:: d_step { client[c].phase == IDLE && REACHES(c, s, t) -> begin(c, s, t); canonical() }
#if EXTENDS
	:: d_step { EXTENDS_NOW(c) && REACHES(c, s, t) -> extend(c, s, t); canonical() }
#endif
	od
}

/* ---- What a server does with a client's commands ------------------------- */

inline drop(s) {
	server[s].key = 0;
	server[s].left = 0
}

/* SET key token NX PX ttl, and the reply sets out (R17). */
inline executeSet(c, s) {
	swap = client[c].claim[s];
	client[c].claim[s] = NOTHING;
	if
	:: server[s].key == 0 ->
		server[s].key = TOKEN(c);
		server[s].left = TTL + LATE;
		printf("server %c: SET of client %d\n", NAME(s), c);
		if
		:: client[c].phase != TRYING
		:: else ->
			if
			:: swap == SET -> client[c].claim[s] = GRANT
			:: swap == SET_IDLE ->
#ifdef DECIDED_AT_REPLY
				client[c].claim[s] = GRANT_IDLE
#endif
			fi
		fi
	:: else
	fi;
	swap = 0
}

#if EXTENDS
/* Compare and lengthen (R10); with HEAL, a missing key is set again. */
#ifdef HEAL
#define LENGTHENS(c, s) (server[s].key == TOKEN(c) || server[s].key == 0)
#else
#define LENGTHENS(c, s) (server[s].key == TOKEN(c))
#endif
inline executeExtend(c, s) {
	swap = client[c].extension[s];
	client[c].extension[s] = NOTHING;
	if
	:: LENGTHENS(c, s) ->
		if
		:: server[s].key -> printf("server %c: extended for client %d\n", NAME(s), c)
		:: else -> printf("server %c: healed for client %d\n", NAME(s), c)
		fi;
#ifdef HEAL_AT_ONCE
		if :: server[s].key == 0 && swap == EXTEND_IDLE -> swap = EXTEND :: else fi;
#endif
		server[s].key = TOKEN(c);
		if :: server[s].left < TTLX + LATE -> server[s].left = TTLX + LATE :: else fi;
		if :: swap == EXTEND -> client[c].extension[s] = EXTENDED :: else fi
	:: else
	fi;
	swap = 0
}
#endif

#ifdef ORPHANS
/* PAYS says if s may execute the release that c owes: behind the SET, or behind
 * the fence against it (d). */
#ifdef FENCED_ELSEWHERE
#define UNDER_WAY(c, s) false
#else
#define UNDER_WAY(c, s) (client[c].claim[s] == SET || client[c].claim[s] == SET_IDLE)
#endif
#ifdef PAID_ELSEWHERE
#define OWES(c, s) (client[c].owed != 0)
#else
#define OWES(c, s) (client[c].owed == s + 1)
#endif
#define PAYS(c, s) (client[c].phase == DONE && OWES(c, s) && !UNDER_WAY(c, s) && ACCEPTS(s))
inline pay(c, s) {
	printf("server %c: release of client %d\n", NAME(s), c);
	client[c].owed = 0;
	if :: server[s].key == TOKEN(c) -> drop(s) :: else fi
}
#endif

#ifdef DECIDED_AT_REPLY
#define GRANTED(c, s) (client[c].claim[s] == GRANT || (client[c].claim[s] == GRANT_IDLE && COUNTS(c, s)))
#else
#define GRANTED(c, s) (client[c].claim[s] == GRANT)
#endif

proctype At(byte c, s) provided (ACTIVE) {
end:	do
	:: d_step { (client[c].claim[s] == SET || client[c].claim[s] == SET_IDLE) && ACCEPTS(s) ->
		executeSet(c, s); canonical() }
	:: d_step { AWAKE(c) && client[c].phase == TRYING && GRANTED(c, s) -> client[c].claim[s] = NOTHING; count(c, s); canonical() }
#if EXTENDS
	:: d_step { client[c].extension[s] != NOTHING && client[c].extension[s] < EXTENDED && ACCEPTS(s) ->
		executeExtend(c, s); canonical() }
	:: d_step { AWAKE(c) && client[c].extension[s] == EXTENDED -> countExtension(c, s); canonical() }
#endif
#ifdef ORPHANS
	:: d_step { PAYS(c, s) -> pay(c, s); canonical() }
	/* The fence. */
	:: d_step { client[c].phase == DONE && UNDER_WAY(c, s) -> client[c].claim[s] = NOTHING; canonical() }
	/* No release will remove the key, so the server must not count. */
	:: d_step { client[c].phase == DONE && client[c].owed == 0 && server[s].key == TOKEN(c) && ACCEPTS(s) ->
		assert(server[s].wait > 0) }
#endif
	od
}

/* ---- What happens to a server -------------------------------------------- */

/* OVER says if the attempt or the lock of a token is over. */
#define OVER(token) (client[OWNER(token)].phase == DONE || client[OWNER(token)].attempt != ((token) - 1) % 2)

/* settle ends what is owed to a server. */
inline settle(s) {
#ifdef ORPHANS
	EACH_CLIENT(if :: client[k].owed == s + 1 -> client[k].owed = 0 :: else fi);
#endif
	skip
}

/* endWatch begins all watches of a server anew. */
#ifdef STARTS
#define SET_WATCH(s, heeds, shared) EACH_CLIENT(if :: heeds -> client[k].watch[s] = UNMET :: else fi)
#else
#define SET_WATCH(s, heeds, shared) server[s].watch = shared
#endif
inline endWatch(s, heeds) { /* heeds is a condition on client k */
	SET_WATCH(s, heeds, L);
#ifndef DECIDED_BEFORE
	EACH_CLIENT(
		if :: client[k].claim[s] == SET && heeds -> client[k].claim[s] = SET_IDLE :: else fi;
#if EXTENDS
		if :: client[k].extension[s] == EXTEND && heeds -> client[k].extension[s] = EXTEND_IDLE :: else fi
#endif
	)
#endif
}

/* becomesAnother is a server's new identity (a). */
inline becomesAnother(s) {
	server[s].wait = WAIT;
#ifdef UPTIME
	server[s].wait = (server[s].young -> WAIT : 0);
#endif
	endWatch(s, true)
}

/* forget makes replicas alike: they are another server when they are promoted. */
inline forget(s) {
	server[s].wait = 0;
	SET_WATCH(s, true, 0)
}

inline promote(s) {
	printf("server %c: promoted\n", NAME(s));
#ifdef SETTLED_BY_PROMOTION
	settle(s);
#endif
	failovers++;
	EACH_SERVER(
		if
		:: BESIDE(s, i) && server[i].role == PRIMARY ->
			server[i].role = (DOUBLE > 0 -> FORMER : FENCED);
			server[i].grace = DOUBLE
		:: else
		fi
	);
	server[s].role = PRIMARY;
	server[s].grace = 0;
#ifdef MAJORITY
	server[s].follows = 0;
#endif
#if defined(RUN_ID_ONLY) || defined(CLOCK_OF_DISCOVERY)
	if
	:: server[s].known
	:: else -> becomesAnother(s)
	fi;
	server[s].known = true
#else
	becomesAnother(s);
#endif
#ifdef SEAL_TRUSTED
	if :: server[s].seal != 0 -> server[s].wait = 0 :: else fi
#endif
#ifdef SEAL_OF_PROCESS
	if :: server[s].seal == s + 1 -> server[s].wait = 0 :: else fi
#endif
}

inline demote(s) {
	printf("server %c: demoted\n", NAME(s));
	server[s].role = REPLICA;
	server[s].grace = 0;
#ifdef MAJORITY
	EACH_SERVER(if :: BESIDE(s, i) && server[i].role == PRIMARY -> server[s].follows = i + 1 :: else fi);
#endif
#ifndef RUN_ID_ONLY
	forget(s)
#endif
}

#ifdef MAJORITY
/* follow makes replica s one of t. */
inline follow(s, t) {
	printf("server %c: follows %c\n", NAME(s), NAME(t));
	server[s].follows = t + 1;
	if
	:: server[t].role == FENCED -> server[t].role = FORMER; server[t].grace = DOUBLE
	:: else
	fi
}
#ifdef RETURNS
#define MAY_FOLLOW(s, t) (BESIDE(s, t) && server[s].role == REPLICA && server[t].role != REPLICA && !FOLLOWS(s, t))
#else
#define MAY_FOLLOW(s, t) (BESIDE(s, t) && server[s].role == REPLICA && server[t].role == PRIMARY && !FOLLOWS(s, t))
#endif
#endif

/* sync gives replica s the present data of t. */
inline sync(s, t) {
	printf("server %c: has the data of %c\n", NAME(s), NAME(t));
	server[s].key = server[t].key;
	server[s].left = server[t].left;
	if :: server[s].key != 0 && server[s].left < MAXTTL + LATE + SKEW -> server[s].left = server[s].left + SKEW :: else fi;
#if defined(SEAL_TRUSTED) || defined(SEAL_OF_PROCESS)
	server[s].seal = server[t].seal;
#endif
	skip
}

#if defined(SEAL_TRUSTED) || defined(SEAL_OF_PROCESS)
#define SAME_SEAL(s, t) (server[s].seal == server[t].seal)
#else
#define SAME_SEAL(s, t) true
#endif
#define SYNCED(s, t) (SAME_SEAL(s, t) && server[s].key == server[t].key && server[s].left == server[t].left)
#ifdef MAJORITY
#define FOLLOWS(s, t) (server[s].role == REPLICA && server[s].follows == t + 1)
#define FOLLOWED(s) (FOLLOWS((s + 1) % BEHIND, s) || FOLLOWS((s + 2) % BEHIND, s))
#else
#define FOLLOWS(s, t) (server[s].role == REPLICA)
#endif
#define SYNCS(s, t) (BESIDE(s, t) && FOLLOWS(s, t) && ACCEPTS(t) && !SYNCED(s, t))

#if CRASHES
inline restart(s, keeps) {
	crashes++;
	if
	:: keeps -> printf("server %c: restarts with its keys\n", NAME(s))
	:: else -> printf("server %c: restarts empty\n", NAME(s)); drop(s)
	fi;
#ifdef UPTIME
	server[s].young = true;
#endif
#ifndef REPLID_ONLY
	becomesAnother(s);
#endif
	settle(s);
	EACH_CLIENT( /* its connections are gone, but not the replies */
		if :: client[k].claim[s] == SET || client[k].claim[s] == SET_IDLE -> client[k].claim[s] = NOTHING :: else fi;
#if EXTENDS
		if :: client[k].extension[s] < EXTENDED -> client[k].extension[s] = NOTHING :: else fi
#endif
	);
	if :: server[s].role == REPLICA -> forget(s) :: else fi
}
#endif

proctype Server_(byte s) provided (ACTIVE) {
end:	do
	/* The key ends, by a clock that may be fast, or is released. */
	:: d_step { server[s].key != 0 && server[s].left <= DRIFT + LATE && server[s].role != REPLICA ->
		drop(s); printf("server %c: key expires\n", NAME(s)); canonical() }
#ifndef ORPHANS
	:: d_step { server[s].key != 0 && ACCEPTS(s) && OVER(server[s].key) ->
		drop(s); printf("server %c: key is released\n", NAME(s)); canonical() }
#endif
	:: d_step { SYNCS(s, FIRST(s)) -> sync(s, FIRST(s)); canonical() }
	:: d_step { SYNCS(s, FIRST(s) + 1) -> sync(s, FIRST(s) + 1); canonical() }
#if BEHIND > 2
	:: d_step { SYNCS(s, 2) -> sync(s, 2); canonical() }
#endif
#ifdef MAJORITY
	:: d_step { MAY_FOLLOW(s, 0) -> follow(s, 0); canonical() }
	:: d_step { MAY_FOLLOW(s, 1) -> follow(s, 1); canonical() }
	:: d_step { MAY_FOLLOW(s, 2) -> follow(s, 2); canonical() }
#endif
	:: d_step { !LONE(s) && server[s].role == REPLICA && RUNS(s) && failovers < FAILOVERS ->
		promote(s); canonical() }
	:: d_step { !LONE(s) && (server[s].role == FORMER || server[s].role == FENCED) && RUNS(s) &&
		failovers < FAILOVERS ->
		demote(s); canonical() }
#if STOPS
	:: d_step { !LONE(s) && RUNS(s) && stops < STOPS ->
		printf("server %c: stops\n", NAME(s)); stops++; server[s].stopped = true; canonical() }
	:: d_step { !RUNS(s) ->
		printf("server %c: goes on\n", NAME(s)); server[s].stopped = false; server[s].silent = 0; canonical() }
#endif
#ifdef CLOCK_OF_DISCOVERY
	:: d_step { !LONE(s) && server[s].role == REPLICA && !server[s].known ->
		printf("server %c: clients hear of it\n", NAME(s)); server[s].known = true; becomesAnother(s); canonical() }
#endif
#ifdef FENCE_LIFTED
	:: d_step { server[s].role == FENCED ->
		printf("server %c: accepts writes again\n", NAME(s)); server[s].role = FORMER; server[s].grace = 1; canonical() }
#endif
#if CRASHES
	:: d_step { !LONE(s) && crashes < CRASHES -> restart(s, true); canonical() }
	:: d_step { !LONE(s) && crashes < CRASHES -> restart(s, false); canonical() }
#endif
	od
}

/* ---- Time ---------------------------------------------------------------- */

/* PASSES says if the time since server s was met passes (e). */
#if defined(MAJORITY) && !defined(UNFOLLOWED)
#define PASSES(s) (server[s].role != PRIMARY || FOLLOWED(s))
#else
#define PASSES(s) true
#endif

inline tick() {
	printf("tick\n");
	EACH_SERVER(
		if
		:: server[i].left == 1 -> drop(i)
		:: server[i].left > 1 -> server[i].left--
		:: else
		fi;
		if
		:: server[i].wait > 0 && PASSES(i) -> server[i].wait--
		:: else
		fi;
#ifdef STARTS
		EACH_CLIENT(if :: MET(k, i) && WATCH(k, i) > 0 && PASSES(i) && AWAKE(k) -> WATCH(k, i)-- :: else fi);
#else
		if :: server[i].watch > 0 && PASSES(i) -> server[i].watch-- :: else fi;
#endif
#if STOPS
		if
		:: !RUNS(i) && server[i].silent <= GAP -> server[i].silent++
		:: else
		fi;
#ifndef SILENCE_IGNORED
		if
		:: server[i].silent > GAP -> endWatch(i, NOTICES(k))
		:: else
		fi;
#endif
#endif
		if
		:: !RUNS(i)
#ifdef MAJORITY
		:: RUNS(i) && FOLLOWED(i)
#endif
		:: RUNS(i) && server[i].grace == 1 -> server[i].grace = 0; server[i].role = FENCED
		:: RUNS(i) && server[i].grace > 1 -> server[i].grace--
		:: else
		fi
	);
	k = 0;
	do
	:: k < CLIENTS ->
		if :: client[k].left > 0 -> client[k].left-- :: else fi;
#if N > 1
		EACH_FAILING(if :: client[k].own[f] > 0 -> client[k].own[f]-- :: else fi);
#endif
		if :: client[k].phase == TRYING -> client[k].age++ :: else fi;
#if EXTENDS
		if :: client[k].extending && client[k].asked < TTLX -> client[k].asked++ :: else fi;
#endif
		if
		:: client[k].phase == TRYING && client[k].age >= TTL - DRIFT -> finish(k)
		:: client[k].phase == HOLDING && client[k].left == 0 -> finish(k)
		:: else
		fi;
		k++
	:: else -> break
	od;
	k = 0
}

proctype Time() provided (ACTIVE) {
end:	do
	:: d_step { true -> tick(); canonical() }
	od
}

init {
	atomic {
		i = 0;
		do
		:: i < SERVERS ->
			server[i].role = (LONE(i) || i == FIRST(i) -> PRIMARY : REPLICA);
#ifdef MAJORITY
			server[i].follows = (server[i].role == REPLICA -> FIRST(i) + 1 : 0);
#endif
#if defined(SEAL_TRUSTED) || defined(SEAL_OF_PROCESS)
			server[i].seal = (server[i].role == PRIMARY -> i + 1 : 0);
#endif
#ifdef RUN_ID_ONLY
			server[i].known = (server[i].role == PRIMARY);
#endif
#ifdef STARTS
			EACH_CLIENT(
				client[k].watch[i] = (LONE(i) -> 0 : UNMET);
				if
				:: i == FIRST(i) && !LONE(i) -> printf("client %d: has watched %c\n", k, NAME(i)); client[k].watch[i] = 0
				:: true
				fi
			);
#endif
			run Server_(i);
			i++
		:: else -> break
		od;
		run Time();
		k = 0;
		do
		:: k < CLIENTS ->
			run Client_(k);
			i = 0;
			do
			:: i < BEHIND ->
				run To(k, i, BEHIND);
#if FAILING > 1
				run To(k, i, BEHIND + 1);
#endif
				i++
			:: else -> break
			od;
			i = 0;
			do
			:: i < SERVERS -> run At(k, i); i++
			:: else -> break
			od;
			k++
		:: else -> break
		od;
		i = 0;
		k = 0
	}
}
