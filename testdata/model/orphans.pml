/*
 * Orphans: once an attempt is settled, no node holds a key of it, and none will. An attempt is settled when it is over and
 * its release was answered, or was owed until the key must have expired (R7, R8).
 *
 * That is a matter between one client and one node: what other nodes say decides only when the attempt is over, and here
 * it may be over at any moment. So one node suffices, and it is modelled with its connections:
 *
 *  - A connection is a queue, and the server executes each queue in its order, but the queues in any order: a stopped
 *    server executes what an old connection brought when it goes on, long after the client has given that up. What was on
 *    its way may also be lost with the connection, from any command on.
 *  - Replies come back in their order, at any time; with a connection that is given up they are lost.
 *  - The node may answer any release with an error, REFUSALS times in all, and it may restart without memory.
 *  - The next connection is fenced: CLIENT KILL for the old one, whose answer says that the old queue is gone. Then debts
 *    are paid, and only then goes anything new.
 *  - A tick comes at any moment. A key lives TTL ticks, or DRIFT fewer or more.
 */

#ifndef TTL
#define TTL 2
#endif
#ifndef DRIFT
#define DRIFT 1
#endif
#ifndef TRIES
#define TRIES 2
#endif
#ifndef BREAKS
#define BREAKS 2 /* of the connection, by the client, by the network */
#endif
#ifndef REFUSALS
#define REFUSALS 1
#endif
#ifndef HEALS
#define HEALS 1
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#define CONNECTIONS (BREAKS + CRASHES + 1)
#define TOKENS (TRIES + 1) /* an attempt's number is its token, and 0 is no key */
#ifdef DRIFT_FORGOTTEN
#define KEY_LIFE TTL
#else
#define KEY_LIFE (TTL + DRIFT)
#endif

/* Commands, and what a reply says. HEAL is a renewal that sets the key again if it is missing (R10). */
mtype = { SET, HEAL, RELEASE, KILL, DONE, REFUSED };

chan toServer[CONNECTIONS] = [8] of { mtype, byte };
chan toClient[CONNECTIONS] = [8] of { mtype, byte, mtype };

/* The node. */
byte key, left, refusals, crashes;

/* The client's side of it. */
mtype = { UP, DOWN, FENCING, PAYING };
mtype state = UP;
byte connection;    /* the one that is used, or was last */
byte previous;      /* the one to be fenced: the last that was up */
bool owesFence;     /* it ended with unanswered commands */
byte unanswered;    /* commands on the connection that is used */
byte attempt;       /* the one that runs, or was last */
bool running;       /* it is not over yet */
byte heals, breaks;
bool sent[TOKENS];  /* what sets its key was put on some connection */
bool voted[TOKENS]; /* the node's grant was seen */
bool over[TOKENS];
byte waits[TOKENS]; /* releases that are unanswered on the connection that is used */
bool owed[TOKENS];  /* a debt that waits to be sent */
byte until[TOKENS]; /* ticks until a debt's key must be gone; 0: not known before the fence */

byte i, token; /* for computing within a step */
mtype what;

#define SETTLED(t) (over[t] && !owed[t] && waits[t] == 0)
#define EACH_TOKEN(step) i = 1; do :: i < TOKENS -> step; i++ :: else -> break od; i = 0

/* The promise. The other half of it is in set: no key of a settled attempt is set later. */
inline check(t) { assert(!SETTLED(t) || key != t) }

inline discard(queue) {
	do
	:: len(queue) > 0 -> queue?what,token
	:: else -> break
	od;
	what = 0;
	token = 0
}

/* ---- The client -------------------------------------------------------------------------------------------------- */

inline send(command, t) {
	toServer[connection]!command(t);
	unanswered++
}

inline sendRelease(t) {
	owed[t] = false;
	waits[t]++;
	send(RELEASE, t)
}

inline owe(t) {
#ifndef DEBT_FORGOTTEN
	owed[t] = true;
#ifdef DEBT_TIMED_EARLY
	if :: until[t] == 0 -> until[t] = KEY_LIFE :: else fi;
#endif
#endif
	printf("client: the release of attempt %d is owed\n", t)
}

inline begin() {
	attempt++;
	running = true;
	if
	:: state == UP ->
		sent[attempt] = true;
		printf("client: SET of attempt %d on connection %d\n", attempt, connection);
		send(SET, attempt)
	:: else
	fi
}

inline heal() {
	heals++;
#ifndef HEAL_NOT_OWED
	sent[attempt] = true;
#endif
	printf("client: HEAL of attempt %d on connection %d\n", attempt, connection);
	send(HEAL, attempt)
}

/* finish is the end of an attempt. R7: its release goes behind its SET, or is owed where there is no connection (R8). */
inline finish() {
	running = false;
	over[attempt] = true;
	printf("client: attempt %d is over\n", attempt);
	if
#ifdef NO_RELEASE
	:: true
#endif
#ifdef VOTERS_RELEASED
	:: !voted[attempt]
#endif
	:: else ->
		if
		:: state == UP -> sendRelease(attempt)
		:: state != UP && sent[attempt] -> owe(attempt)
		:: else
		fi
	fi;
	check(attempt)
}

/* breakOff gives the connection up: replies are lost, and releases that were not answered are owed. */
inline breakOff() {
	printf("client: connection %d breaks, %d unanswered\n", connection, unanswered);
	if
	:: state == UP && unanswered > 0 -> owesFence = true; previous = connection
	:: else
	fi;
	state = DOWN;
	unanswered = 0;
	do
	:: len(toClient[connection]) > 0 -> toClient[connection]?what,token,what
	:: else -> break
	od;
	what = 0;
	token = 0;
	EACH_TOKEN(if :: waits[i] > 0 -> waits[i] = 0; owe(i); check(i) :: else fi)
}

/* dial is the next connection, after its handshake: first the fence, if one is owed. */
inline dial() {
	connection++;
	if
#ifdef NO_FENCE
	:: true -> owesFence = false; pay()
#else
	:: owesFence ->
		state = FENCING;
		printf("client: connection %d kills connection %d\n", connection, previous);
#ifdef PAID_BEFORE_FENCE
		EACH_TOKEN(if :: owed[i] -> until[i] = KEY_LIFE; sendRelease(i) :: else fi);
#endif
		send(KILL, previous)
#endif
	:: else -> pay()
	fi
}

/* pay sends what is owed. No older command can be executed from now on, so a key's life can be reckoned. */
inline pay() {
	state = PAYING;
	printf("client: connection %d pays\n", connection);
	EACH_TOKEN(
		if
		:: owed[i] ->
			if :: until[i] == 0 -> until[i] = KEY_LIFE :: else fi;
			sendRelease(i)
		:: else
		fi
	)
}

/* hear takes the next reply. A release that was answered by an error is owed still. */
inline hear() {
	toClient[connection]?what,token,verdict;
	unanswered--;
	if
	:: what == KILL ->
		printf("client: connection %d is fenced\n", token);
		owesFence = false;
		token = 0;
		pay()
	:: what == SET && verdict == DONE -> voted[token] = true
	:: what == RELEASE ->
		waits[token]--;
#ifndef ERROR_SETTLES
		if
		:: verdict == REFUSED ->
			owe(token);
			if :: until[token] == 0 -> until[token] = KEY_LIFE :: else fi
		:: else
		fi;
#endif
		check(token)
	:: else
	fi;
	what = 0;
	token = 0;
	verdict = 0
}

#define RETRY(t) :: d_step { state == UP && owed[t] -> sendRelease(t) }

proctype Client() {
	mtype verdict;
end:	do
	:: d_step { attempt < TRIES && !running -> begin() }
	:: d_step { running && state == UP && heals < HEALS -> heal() }
	:: d_step { running -> finish() }
	:: d_step { state != DOWN && len(toClient[connection]) > 0 -> hear() }
	:: d_step { state != DOWN && breaks < BREAKS -> breaks++; breakOff() }
	:: d_step { state == DOWN -> dial() }
	:: d_step { state == PAYING && unanswered == 0 -> state = UP; printf("client: connection %d is up\n", connection) }
	RETRY(1)
#if TRIES > 1
	RETRY(2)
#endif
#if TRIES > 2
	RETRY(3)
#endif
	od
}

/* ---- The node ---------------------------------------------------------------------------------------------------- */

inline reply(c, answer) {
	if
	:: c == connection && state != DOWN -> toClient[c]!what,token,answer
	:: else /* the connection is gone */
	fi
}

inline set(c) {
	if
	:: key == 0 ->
		key = token;
		left = TTL + DRIFT;
		printf("node: SET of attempt %d, from connection %d\n", token, c);
		assert(!SETTLED(token)); /* the promise */
		reply(c, DONE)
	:: else -> reply(c, REFUSED)
	fi
}

inline execute(c) {
	toServer[c]?what,token;
	if
	:: what == SET || what == HEAL -> set(c)
	:: what == RELEASE ->
		printf("node: release of attempt %d, from connection %d\n", token, c);
		if :: key == token -> key = 0; left = 0 :: else fi;
		reply(c, DONE)
	:: what == KILL ->
		printf("node: connection %d is killed\n", token);
#ifdef KILL_FORBIDDEN
		reply(c, REFUSED)
#else
		i = token;
		discard(toServer[i]);
		token = i;
		i = 0;
		what = KILL;
		reply(c, DONE)
#endif
	fi;
	what = 0;
	token = 0
}

/* refuse is an error in the place of an answer: nothing was executed. */
inline refuse(c) {
	refusals++;
	toServer[c]?what,token;
	printf("node: refuses, on connection %d\n", c);
	reply(c, REFUSED);
	what = 0;
	token = 0
}

inline restart() {
	crashes++;
	printf("node: restarts empty\n");
	key = 0;
	left = 0;
	i = 0;
	do
	:: i < CONNECTIONS -> discard(toServer[i]); i++
	:: else -> break
	od;
	i = 0
}

proctype Connection(byte c) {
end:	do
	:: d_step { len(toServer[c]) > 0 -> execute(c) }
	:: d_step { refusals < REFUSALS && toServer[c]?[RELEASE, _] -> refuse(c) }
	/* What was on its way is lost with a connection that was given up, and nothing of it but its end. */
	:: d_step { len(toServer[c]) > 0 && (c != connection || state == DOWN) -> discard(toServer[c]) }
	od
}

proctype Node() {
end:	do
	:: d_step { key != 0 && left <= 2 * DRIFT -> printf("node: the key expires\n"); key = 0; left = 0 }
	:: d_step {
		crashes < CRASHES -> restart();
		if :: state != DOWN -> breakOff() :: else fi /* a new process: all connections are gone */
	}
	od
}

/* ---- Time, and the end ------------------------------------------------------------------------------------------- */

#if TRIES > 2
#define COUNTS_DOWN (key != 0 || until[1] || until[2] || until[3])
#elif TRIES > 1
#define COUNTS_DOWN (key != 0 || until[1] || until[2])
#else
#define COUNTS_DOWN (key != 0 || until[1])
#endif

inline tick() {
	printf("tick\n");
	if
	:: left == 1 -> left = 0; key = 0
	:: left > 1 -> left--
	:: else
	fi;
	EACH_TOKEN(
		if
		:: until[i] == 1 ->
			until[i] = 0;
			if :: owed[i] -> owed[i] = false; printf("client: the debt of attempt %d ends\n", i); check(i) :: else fi
		:: until[i] > 1 -> until[i]--
		:: else
		fi
	)
}

proctype Time() {
end:	do
	:: d_step { COUNTS_DOWN -> tick() }
	od
}

/* Where nothing can happen any more, everything is settled. */
proctype Judge() {
end:	timeout -> d_step {
		assert(state == UP && unanswered == 0 && !owesFence);
		EACH_TOKEN(assert(SETTLED(i)))
	}
}

init {
	atomic {
		run Client();
		run Node();
		run Time();
		i = 0;
		do
		:: i < CONNECTIONS -> run Connection(i); i++
		:: else -> break
		od;
		i = 0;
		run Judge()
	}
}
