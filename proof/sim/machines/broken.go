package machines

// Broken names a rule that is broken on purpose, to show that the referee finds
// it. Each is broken in the simulator's own part of the work or in its servers;
// testdata/mutants breaks the pure machines. If empty, none is.
type Broken string

func (b Broken) is(other Broken) bool { return b == other }

// allByChance are the rules that some seed finds broken.
var allByChance []Broken

func byChance(rule Broken) Broken {
	allByChance = append(allByChance, rule)
	return rule
}

// The rules that can be broken.
var (
	QuorumLessOne        = byChance("quorum less one")                 // R1
	QuorumOfLive         = byChance("quorum of those that are up")     // R1: a quorum of the nodes that are up, not of the configured ones
	WithoutNX            = byChance("no NX")                           // R2
	TokenReused          = byChance("token reused")                    // R3: a retry reuses it
	ElapsedIgnored       = byChance("elapsed ignored")                 // R4: validity counts from the return
	StartReadLate        = byChance("start read late")                 // R4: elapsed starts when the answer arrives
	NoDrift              = byChance("no drift")                        // R4
	WallIgnored          = byChance("wall clock ignored")              // R4: only the monotonic clock is read
	NoReleaseOnFailure   = byChance("no release on failure")           // R7
	ReleaseOnContext     = byChance("release on the caller's context") // R7: none if the caller's context has ended
	ReleaseOnlyIfGranted = byChance("release only where granted")      // R7: none if no vote was seen
	ReleaseOvertakes     = byChance("release overtakes the SET")       // R8: the SET that it undoes
	NoFence              = byChance("no fence")                        // R8
	FenceUnheard         = byChance("fence unheard")                   // R8: a refused CLIENT KILL is taken for a kill
	FenceLate            = byChance("late fence")                      // R8: debts are paid and commands are sent before it
	DebtForgotten        = byChance("debt forgotten")                  // R8
	ErrorsSettle         = byChance("an error settles")                // R8: an error ends a debt
	PlainDEL             = byChance("plain DEL")                       // R9
	ShorteningExtension  = byChance("extension shortens")              // R10
	LateExtension        = byChance("late extension counts")           // R10: counts even if the old validity has ended
	HealingIsProof       = byChance("healing is proof")                // R10: on a quarantined node
	RenewalFromReply     = byChance("renewal counts from its reply")   // R10: the validity counts from the reply to the renewal
	ContextLate          = byChance("context ends late")               // R13: ends 20 ms after the validity, as if it waited for a reply
	ClocksUnread         = byChance("clocks unread")                   // R15: a hold does not read the clocks when it is asked
	NullIsOK             = byChance("null is OK")                      // R17
	LateVotesCount       = byChance("late votes count")                // R17: after the decision
	NoQuarantine         = byChance("no quarantine")                   // R23
	ShortQuarantine      = byChance("short quarantine")                // R23: half as long
	SealOfAnother        = byChance("seal of another process")         // R23: a seal counts even if it is another process's
	HistoryIgnored       = byChance("history ignored")                 // R23: a process that was a replica meanwhile is the same
	UptimeAmongSealed    = byChance("uptime among sealed nodes")       // R29: an emptied node counts as watched since its start
	UptimeOfPromoted     = byChance("uptime of a promoted node")       // R29
	UptimeWithoutMargin  = byChance("uptime without margin")           // R29
	EachStartForItself   = byChance("each start for itself")           // R29: when a set is opened, a node counts by its own start, not by the last one's
	OwnWatchKept         = byChance("own watch kept")                  // R29: what was watched before another set's node was taken counts
	VouchesForAll        = byChance("vouches for all")                 // R29: a client that finishes another's opening states what it has watched before
	ClockStepsAfterStart = byChance("clock steps after start")         // R29: not a rule for us, but the condition: a node's clock is set after its start
	RivalsIgnored        = byChance("rivals ignored")                  // R30: every deployment is taken for the own one
	StrangerAdopted      = byChance("stranger adopted")                // R30: a node that the deployment does not list is sealed for it
	NoLockStage          = byChance("no lock stage")                   // R30: nodes are sealed once all have accepted the proposal
	EqualGranted         = byChance("equal number granted")            // F1: T ≥ last
	NotCompared          = byChance("number not compared")             // F1: the highest number is kept, and a lower one granted
	CounterForEach       = byChance("counter for each server")         // F1: each server counts, and the number is the highest of the replies
	MissingIsZero        = byChance("missing number is zero")          // F1: a last number that is missing, whatever the record says
	FloorIgnored         = byChance("floor ignored")                   // F1: only the highest numbers of the record count
	StaleCounts          = byChance("stale counts")                    // F1: a refused number is a grant
	BlindCounts          = byChance("blind grant counts")              // F2: a grant of a server without a floor
	FloorNotNeeded       = byChance("no floor needed")                 // F3: a node counts after its quarantine, as for other locks
	PartGranted          = byChance("part of a set granted")           // several resources: a server sets those that are free
	PartExtended         = byChance("part of a set extended")          // several resources: a server lengthens one of them
	PartKept             = byChance("part of a set kept")              // several resources: a caller keeps what it has while it waits for the rest
	ReadersFewer         = byChance("fewer readers than a quorum")     // read/write locks: R + W ≤ N
	ReaderIgnoresWriter  = byChance("reader ignores the writer")       // read/write locks: a server lets it in beside one
	WriterIgnoresReaders = byChance("writer ignores readers")          // read/write locks
	ReadersShareTTL      = byChance("readers share a TTL")             // read/write locks: the set has one TTL, that of the last reader
	ReaderByClientsClock = byChance("reader by the client's clock")    // read/write locks: a reader's time ends by the client's clock
	WriterKept           = byChance("writer kept")                     // read/write locks: the writer's validity goes on until the downgrade is confirmed
	DowngradeInTwo       = byChance("downgrade in two")                // read/write locks: the writer is released, and then reads
	UpgradeBesideReaders = byChance("upgrade beside readers")          // read/write locks
	UndoDropsReader      = byChance("undo drops the reader")           // read/write locks: the undoing of an upgrade
	PermitsCounted       = byChance("permits counted")                 // semaphores: votes for any permit are counted
	TicketNotCompared    = byChance("ticket not compared")             // fair locks
	NoLease              = byChance("no lease")                        // fair locks: a waiter stays

	// Chance alone finds these too seldom; form_test.go has their histories.
	TicketUnderOldName Broken = "ticket under the old name" // fair locks: a new ticket for a waiter that is in some queues
	KeptUnheard        Broken = "kept unheard"              // fair locks: a ticket counts as let in if no node that was heard refused it
)
