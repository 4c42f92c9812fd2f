// Package doctest checks that the documentation is true. It has tests only.
// They read the Markdown files at the top, in docs, bench and testdata, and run
// the fenced blocks in the order in which a reader would:
//
//	go         a whole file, with its path in the first line, is written to the
//	           session; a fragment is compiled between declarations of what it
//	           takes for granted (fragments_test.go)
//	sh         is run by sh -eu, except commands that session_test.go lists with
//	           the reason why they are not run here
//	console    commands after "$ " are run, and must print what follows each of
//	           them; … stands for anything
//	redis      a server is started with it as its configuration
//	acl        each available server gets the rule, and that user acquires, extends
//	           and releases a lock
//	ini        a systemd unit, read by systemd-analyze verify where available, and
//	           always by a small parser
//	yaml       a compose file or a file of alerts, read by a parser that refuses
//	           unknown fields
//	sql        is run on real databases by the tests of contrib/adapters; only
//	           docs/fencing.md and recipes.md may have such blocks
//	text       is not checked
//
// A block of any other kind fails the tests. So do indented blocks of code,
// links that lead nowhere, names of make targets, packages, scripts, Go files
// and identifiers that do not exist, and lines that are too long. Comments in
// the code are checked for plain words and for what they cite: a document, a
// section by its heading, a rule (citations_test.go). The CI workflow is compared
// with the Makefile, and the Dockerfile and compose.yaml with what they name
// (ci_test.go).
//
// The blocks of one file form a session: they share the servers that they
// started, and /etc/redis, which is a folder of the session. Commands run in a
// copy of the tree. The ports 7001 to 7009 are replaced by free ones, so that
// sessions can run in parallel. All that a session started ends with it.
package doctest
