// Package doctest holds the documentation to its word: it has tests only. They read every Markdown file at the top, in docs
// and in bench, and run what stands in its fenced blocks, in the order in which a reader would.
//
//	go         a whole file, with its path in the first line, is written to the session; a fragment is compiled between
//	           declarations of what it takes for granted (fragments_test.go)
//	sh         is run by sh -eu, but for commands that commands_test.go lists with the reason why they are not run here
//	console    commands behind "$ " are run, and what stands below each is what they must print; … stands for anything
//	redis      a server is started with it as its configuration
//	acl        every server that is there is given the rule, and a lock is taken, extended and released by that user
//	ini        a systemd unit, read by systemd-analyze verify where there is one, and in any case by a small parser
//	yaml       a compose file or a file of alerts, read with a parser that refuses unknown fields
//	text       is for the eye only
//
// A block of any other kind fails the tests, and so do indented blocks of code, links that lead nowhere, names of make
// targets, packages, scripts, Go files and identifiers that are not there, and lines that are too long. Comments of the code are
// held to what they cite: a document, a section by its heading, a rule (citations_test.go).
//
// All blocks of one file make a session: they share the servers that they started, and /etc/redis, which is a folder of the
// session. Commands run in a copy of the tree. The ports 7001 to 7009 are replaced by free ones, so that sessions do not disturb each
// other or what else runs on the machine. Everything that a session started ends with it.
package doctest
