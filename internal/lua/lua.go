// Package lua has the Lua programs that the nodes run for package redlock. It
// knows nothing of how they are loaded and called. Nodes in
// memory (internal/redistest) run the same programs.
//
// A number as an argument of a command costs a server more than a text: it is
// written with %.17g. So small ones on common paths are made texts by
// string.format('%d', n). Where that has 32 bits, a time in ms is too long for
// it.
package lua

import (
	"crypto/sha1" //nolint:gosec // the name that the protocol gives to scripts
	_ "embed"     // for the programs
	"encoding/hex"
)

// Digest returns the name that a node gives to a program.
func Digest(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

var (
	// Release deletes a key that has the token (R9).
	//go:embed release.lua
	Release string
	// ReleaseMany is Release for several keys.
	//go:embed release_many.lua
	ReleaseMany string
	// Extend lengthens the life of a key that has the token (R10).
	//go:embed extend.lua
	Extend string
	// ExtendMany is Extend for several keys.
	//go:embed extend_many.lua
	ExtendMany string
	// Heal is Extend, and sets a key that is missing (R10).
	//go:embed heal.lua
	Heal string
	// Shorten shortens the life of a key that has the token: a release that
	// takes effect later.
	//go:embed shorten.lua
	Shorten string
	// AcquireAll sets several keys if none of them exists, for one lock.
	//go:embed acquire_all.lua
	AcquireAll string
	// ReleaseAll deletes the keys of one lock (R9).
	//go:embed release_all.lua
	ReleaseAll string
	// ExtendAll lengthens the lives of the keys of one lock (R10).
	//go:embed extend_all.lua
	ExtendAll string
	// Look returns the value of a key, or the digest of a long one.
	//go:embed look.lua
	Look string
	// LookReaders returns who reads.
	//go:embed look_readers.lua
	LookReaders string
	// LookPermits returns which permits of a semaphore are taken.
	//go:embed look_permits.lua
	LookPermits string
	// LookQueue returns who waits for a fair lock.
	//go:embed look_queue.lua
	LookQueue string
	// Scan returns names of keys.
	//go:embed scan.lua
	Scan string
	// Seal changes the seal (R23, R30).
	//go:embed seal.lua
	Seal string
	// AcquireFenced sets a lock that has a fencing number (docs/fencing.md).
	//go:embed acquire_fenced.lua
	AcquireFenced string
	// Read lets a reader in, or says what is in the way.
	//go:embed read.lua
	Read string
	// Write lets a writer in, or says what is in the way.
	//go:embed write.lua
	Write string
	// Downgrade makes a writer a reader.
	//go:embed downgrade.lua
	Downgrade string
	// ExtendRead lengthens the time of a reader (R10).
	//go:embed extend_read.lua
	ExtendRead string
	// ReleaseRead lets a reader out (R9).
	//go:embed release_read.lua
	ReleaseRead string
	// AcquirePermit takes a permit of a semaphore, or says which are free.
	//go:embed acquire_permit.lua
	AcquirePermit string
	// ExtendPermit lengthens the life of a permit (R10).
	//go:embed extend_permit.lua
	ExtendPermit string
	// ReleasePermit deletes a permit that has the token (R9), and tells the
	// callers that wait.
	//go:embed release_permit.lua
	ReleasePermit string
	// ReleaseMarked deletes a writer's key that has the token (R9), and the mark
	// of one that waits.
	//go:embed release_marked.lua
	ReleaseMarked string
	// AskFair asks for a lock whose callers are served in order.
	//go:embed ask_fair.lua
	AskFair string
	// ReleaseFair gives such a lock back (R9), or a place in its queue.
	//go:embed release_fair.lua
	ReleaseFair string
	// Floor gives a node the floor of its fencing numbers.
	//go:embed floor.lua
	Floor string
)

// Locks returns the programs that each node must know.
func Locks() []string {
	return []string{
		Release, Extend, ReleaseMany, ExtendMany, Heal, Shorten,
		AcquireAll, ReleaseAll, ExtendAll, Seal,
		Read, Write, Downgrade, ExtendRead, ReleaseRead,
		AcquirePermit, ExtendPermit, ReleasePermit, ReleaseMarked,
		AskFair, ReleaseFair,
	}
}

// Numbers returns those that it must also know for fencing numbers.
func Numbers() []string { return []string{AcquireFenced, Floor} }
