//go:build !unix

package main

// ownLinks accepts every path: the owner of a link is not known.
func ownLinks(string) error { return nil }
