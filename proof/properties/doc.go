// Package properties tests what must always be true: of the decisions of
// internal/pure, for random histories, and of the decoder of resp, compared
// with the decoders of two other clients. It has tests only. They are not
// beside the code because rapid, redigo and redcon must not become dependencies
// of programs that import redlock.
package properties
