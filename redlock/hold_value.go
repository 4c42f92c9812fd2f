package redlock

import "context"

// DoValue is Locker.DoWith for a function that returns a value. The value is
// that of fn, also with an error: zero if fn was not called, and what was read
// or made under a lock that was lost meanwhile (ErrLost).
func DoValue[T any](
	ctx context.Context, k Locker, options HoldOptions, fn func(context.Context) (T, error),
) (value T, err error) {
	must(fn != nil, noFunction)
	err = k.DoWith(ctx, options, func(ctx context.Context) (err error) {
		value, err = fn(ctx)
		return err
	})
	return value, err
}
