package main

import "go.etcd.io/etcd/api/v3/version"

// serverVersion is that of the members, which are of this program.
func serverVersion() string { return version.Version }
