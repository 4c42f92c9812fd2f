package redlock

import "context"

// DoValue is Locker.DoWith for a function with a value. The value is fn's, also
// with an error: after ErrLost, fn may have read or made it under a lost lock.
// Without a call of fn it is zero.
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
