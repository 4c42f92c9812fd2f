package fencing

import (
	"context"
	"errors"
	"fmt"

	"github.com/redmux/redmux/contrib/internal/door"
)

// ErrChanged is what write of WriteObject returns when the store refused its
// condition. WriteObject returns it if that happened each time.
var ErrChanged = errors.New("fencing: the object was changed meanwhile")

// objectTries bounds how often WriteObject begins anew. Each time, another
// write came between: of the few that hold the lock, or have held it.
const objectTries = 10

// WriteObject writes an object of a store that has conditional writes and
// cannot compare numbers itself. It calls read, returns ErrStale if the number
// that read found is higher, and calls write, which must write on the condition
// that the object still has the version that read returned. If write returns
// ErrChanged, it begins anew, ten times at most.
//
// read returns the version, such as an ETag, and the number that was written
// with it. If there is no object, it returns an empty version, and write must
// create the object only if there still is none (If-None-Match: *). If an object
// has no number yet, read returns 0. Any other error of read and write ends
// WriteObject, and is returned as it is; whether a write that failed took effect
// is for the caller to know, who may call WriteObject again with the same
// number.
//
// The version must change with each write. The ETag of Amazon S3 and others
// reflects only the content: there the content must contain the number, not the
// metadata alone. Otherwise an object that gets back an earlier content lets an
// earlier holder write.
func WriteObject(
	ctx context.Context, number uint64,
	read func(context.Context) (version string, number uint64, err error),
	write func(ctx context.Context, version string) error,
) error {
	door.Must(ctx != nil, "fencing: the context is nil")
	door.Must(read != nil && write != nil, "fencing: a function is nil")
	if number == 0 || number > Last {
		return fmt.Errorf("%w: %d is not one", ErrNoNumber, number)
	}
	for range objectTries {
		if err := ctx.Err(); err != nil {
			return err
		}
		version, seen, err := read(ctx)
		if err != nil {
			return err
		}
		if seen > number {
			return ErrStale
		}
		if err := write(ctx, version); !errors.Is(err, ErrChanged) {
			return err
		}
	}
	return ErrChanged
}
