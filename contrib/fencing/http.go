package fencing

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/redmux/redmux/contrib/internal/door"
)

// Header is the name of the HTTP header that carries a number.
const Header = "Redlock-Fence"

// SetHeader sets the header of a request to the number of the hold that the
// request's context comes from. It returns the errors of FromContext, and then
// the request must not be sent.
func SetHeader(r *http.Request) error {
	door.Must(r != nil && r.Header != nil, "fencing: the request or its header is nil")
	number, err := FromContext(r.Context())
	if err != nil {
		return err
	}
	r.Header.Set(Header, strconv.FormatUint(number, 10))
	return nil
}

// FromHeader returns the number of a request that a server received. It returns
// ErrNoNumber unless there is exactly one header, with a number as Parse takes
// it.
//
// There is no middleware that compares numbers before it calls a handler: a
// request that passed it might be delayed, and write after a request with a
// higher number. The handler compares in the transaction that writes, and
// answers 412 (Precondition Failed) to what that refuses. Nor is a map in
// memory enough: a server that restarts would begin anew.
func FromHeader(h http.Header) (uint64, error) {
	values := h.Values(Header)
	if len(values) != 1 {
		return 0, fmt.Errorf("%w: there are %d headers %s", ErrNoNumber, len(values), Header)
	}
	return Parse(values[0])
}
