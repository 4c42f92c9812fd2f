package conn

// A nil context, and a value that no function of this package has made, are
// mistakes of a program. They panic at the door, with a sentence that says what
// is wrong: a zero Poller would otherwise close the descriptor 0.

// must panics with a text unless ok.
func must(ok bool, text string) {
	if !ok {
		panic("conn: " + text)
	}
}

func (c *Conn) made() { must(c != nil && c.done != nil, "a nil or zero Conn: Dial makes one") }

// noError is said of a method of a nil error.
const noError = "a nil error, which no function of this package returns"
