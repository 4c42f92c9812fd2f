// Package door refuses what is a mistake of a program: a nil context, client or
// function, and a value that no function of its package has made. It panics
// with the package's name, before anything is locked.
package door

// Must panics with a text, which begins with the package's name, unless ok.
func Must(ok bool, text string) {
	if !ok {
		panic(text)
	}
}
