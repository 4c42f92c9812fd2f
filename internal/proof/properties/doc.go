// Package properties holds what must be true whatever happens: of the decisions
// of internal/pure, for random histories, and of the decoder of resp, beside the
// decoders of two other clients. It is tests only. They stand here and not
// beside the code because rapid, redigo and redcon are no business of a program
// that imports redlock.
package properties
