// Package resp turns bytes into RESP values and values into bytes, in both
// versions of the protocol and in both directions.
//
// A [Reader] is a machine without input of its own: bytes are pushed into it
// ([Reader.Space], [Reader.Commit], or [Reader.Fill]) and values come out
// ([Reader.Next]). A [Value] is a view of the Reader's buffer; aggregates are
// iterated where they lie, and nothing is allocated. Encoding appends to a slice
// that the caller owns: dst = [AppendBulkString](dst, s).
//
// It speaks all fifteen types of https://redis.io/docs/latest/develop/reference/protocol-spec/,
// the nulls of both versions, attributes and pushes. The streamed forms ("$?",
// "*?", ";", ".") are refused: no server sends them.
//
// It knows nothing of sockets, time, goroutines or commands, and never waits. It
// does not know which reply belongs to which command, nor whether a push was
// asked for. It imports the standard library only.
//
// # Who owns what
//
// Views die at the next call. The Reader owns its buffer; a Value and every slice
// taken from it are valid until the following call of Next, Space or Fill on that
// Reader. Whoever needs more copies. Builds with the race detector overwrite what
// was taken back, so that a stale view shows itself (R20).
//
// A Reader belongs to one goroutine at a time. What is given to an Append
// function is copied and not kept.
//
// # What a server cannot do
//
// The bytes come from a stranger (R18). Whatever they are, a Reader does not
// panic; it holds at most the bytes received and 64 KiB; it spends time in
// proportion to the bytes, however they are cut; it gives the same values and the
// same error for every cut. Line, bulk, elements, depth and size are bounded by
// [Limits]. The first fault ends the stream: the error is sticky, and nothing
// behind it is looked at, because reply k belongs to command k only as long as
// every byte was understood (R16).
//
// Nor can the bytes of an argument become a command (R19): arguments go out as
// bulk strings, whose length stands before them.
package resp
