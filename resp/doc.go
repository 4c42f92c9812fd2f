// Package resp decodes and encodes RESP, the protocol of Redis and Valkey, in
// both of its versions and in both directions: clients encode commands and
// decode replies, and servers, proxies and fakes the reverse.
//
// A [Reader] has no input of its own: the caller pushes bytes in
// ([Reader.Space] and [Reader.Commit], or [Reader.Fill]) and takes values out
// ([Reader.Next]). A [Value] is a view of the Reader's buffer; aggregates are
// iterated where they are, and nothing is allocated. Encoding appends to a
// slice that the caller owns: dst = [AppendBulkString](dst, s).
//
// All fifteen types of
// https://redis.io/docs/latest/develop/reference/protocol-spec/ are supported,
// with the nulls of both versions, attributes and pushes. The streamed forms
// ("$?", "*?", ";", ".") are refused: no server sends them.
//
// The package knows nothing of sockets, time, goroutines or commands. It does
// not know which reply belongs to which command, nor whether a push was asked
// for. Nothing in it blocks, except that Fill waits for its source. It imports
// the standard library only.
//
// R1 to R34 in these comments are the rules of docs/internals/rules.md
// (https://github.com/redmux/redmux/blob/main/docs/internals/rules.md).
//
// # Who owns what
//
// The Reader owns its buffer. A Value, and every slice taken from it, is valid
// until the following call of Next, Space or Fill on that Reader; copy what is
// needed for longer. Builds with the race detector overwrite the bytes of ended
// views, which exposes a view that is used too late (R20).
//
// A Reader belongs to one goroutine at a time. An Append function copies its
// arguments and does not keep them.
//
// # What a server cannot do
//
// The bytes are not trusted (R18). Whatever they are, a Reader does not panic;
// it holds at most the bytes received and 64 KiB more; it takes time in
// proportion to the bytes; and it returns the same values and the same error
// wherever reads cut the stream. [Limits] bounds lines, bulks, elements, depth
// and size. The first error is sticky, and nothing behind it is parsed, because
// reply k belongs to command k only as long as every byte was understood (R16).
//
// No byte of an argument can become a command (R19): arguments are sent as bulk
// strings, with their length in front.
package resp
