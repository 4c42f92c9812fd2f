package machines

// Broken is a rule that is broken on purpose, to show that the referee finds
// it. Each is broken in the simulator's own part of the work or in its servers;
// testdata/mutants breaks the pure machines.
type Broken uint8

func (b Broken) is(other Broken) bool { return b == other }

// The rules that can be broken.
const (
	Nothing              Broken = iota
	QuorumLessOne               // R1
	QuorumOfLive                // R1: a quorum of the nodes that are up, not of the configured ones
	WithoutNX                   // R2
	TokenReused                 // R3: a retry reuses it
	ElapsedIgnored              // R4: validity counts from the return
	StartReadLate               // R4: elapsed starts when the answer arrives
	NoDrift                     // R4
	WallIgnored                 // R4: only the monotonic clock is read
	NoReleaseOnFailure          // R7
	ReleaseOnContext            // R7: none if the caller's context has ended
	ReleaseOnlyIfGranted        // R7: none if no vote was seen
	ReleaseOvertakes            // R8: the SET that it undoes
	NoFence                     // R8
	FenceUnheard                // R8: a refused CLIENT KILL is taken for a kill
	FenceLate                   // R8: debts are paid and commands are sent before it
	DebtForgotten               // R8
	ErrorsSettle                // R8: an error ends a debt
	PlainDEL                    // R9
	ShorteningExtension         // R10
	LateExtension               // R10: counts even if the old validity has ended
	HealingIsProof              // R10: on a quarantined node
	RenewalFromReply            // R10: the validity counts from the reply to the renewal
	ContextLate                 // R13: ends 20 ms after the validity, as if it waited for a reply
	ClocksUnread                // R15: a hold does not read the clocks when it is asked
	NullIsOK                    // R17
	LateVotesCount              // R17: after the decision
	NoQuarantine                // R23
	ShortQuarantine             // R23: half as long
	SealOfAnother               // R23: a seal counts even if it is another process's
	UptimeAmongSealed           // R29: an emptied node counts as watched since its start
	UptimeOfPromoted            // R29
	UptimeWithoutMargin         // R29
	EachStartForItself          // R29: when a set is opened, a node counts by its own start, not by the last one's
	OwnWatchKept                // R29: what was watched before another set's node was taken counts
	VouchesForAll               // R29: a client that finishes another's opening states what it has watched before
	ClockStepsAfterStart        // R29: not a rule for us, but the condition: a node's clock is set after its start
	RivalsIgnored               // R30: every deployment is taken for the own one
	StrangerAdopted             // R30: a node that the deployment does not list is sealed for it
	NoLockStage                 // R30: nodes are sealed once all have accepted the proposal
	EqualGranted                // F1: T ≥ last
	NotCompared                 // F1: the highest number is kept, and a lower one granted
	CounterForEach              // F1: each server counts, and the number is the highest of the replies
	MissingIsZero               // F1: a last number that is missing, whatever the record says
	FloorIgnored                // F1: only the highest numbers of the record count
	StaleCounts                 // F1: a refused number is a grant
	BlindCounts                 // F2: a grant of a server without a floor
	FloorNotNeeded              // F3: a node counts after its quarantine, as for other locks
	PartGranted                 // several resources: a server sets those that are free
	PartExtended                // several resources: a server lengthens one of them
	PartKept                    // several resources: a caller keeps what it has while it waits for the rest
	ReadersFewer                // read/write locks: R + W ≤ N
	ReaderIgnoresWriter         // read/write locks: a server lets it in beside one
	WriterIgnoresReaders        // read/write locks
	ReadersShareTTL             // read/write locks: the set has one TTL, that of the last reader
	ReaderByClientsClock        // read/write locks: a reader's time ends by the client's clock
	WriterKept                  // read/write locks: the writer's validity goes on until the downgrade is confirmed
	DowngradeInTwo              // read/write locks: the writer is released, and then reads
	UpgradeBesideReaders        // read/write locks
	UndoDropsReader             // read/write locks: the undoing of an upgrade
	PermitsCounted              // semaphores: votes for any permit are counted
	TicketNotCompared           // fair locks
	NoLease                     // fair locks: a waiter stays
	brokenEnd

	// Chance alone finds these too seldom; form_test.go has their histories.
	TicketUnderOldName // fair locks: a new ticket for a waiter that is in some queues
	KeptUnheard        // fair locks: a ticket counts as let in if no node that was heard refused it
)

var brokenNames = [...]string{
	"nothing", "quorum less one", "quorum of those that are up", "no NX", "token reused", "elapsed ignored", "start read late",
	"no drift", "wall clock ignored", "no release on failure", "release on the caller's context", "release only where granted",
	"release overtakes the SET", "no fence", "fence unheard", "late fence", "debt forgotten", "an error settles",
	"plain DEL", "extension shortens", "late extension counts", "healing is proof", "renewal counts from its reply",
	"context ends late", "clocks unread", "null is OK", "late votes count", "no quarantine", "short quarantine",
	"seal of another process", "uptime among sealed nodes", "uptime of a promoted node", "uptime without margin",
	"each start for itself", "own watch kept", "vouches for all",
	"clock steps after start", "rivals ignored", "stranger adopted", "no lock stage",
	"equal number granted", "number not compared", "counter for each server", "missing number is zero", "floor ignored",
	"stale counts", "blind grant counts", "no floor needed", "part of a set granted", "part of a set extended",
	"part of a set kept",
	"fewer readers than a quorum", "reader ignores the writer", "writer ignores readers", "readers share a TTL", "reader by the client's clock",
	"writer kept", "downgrade in two", "upgrade beside readers", "undo drops the reader", "permits counted",
	"ticket not compared", "no lease", "", "ticket under the old name", "kept unheard",
}

func (b Broken) String() string { return brokenNames[b] }
