// Package admin is for operators, and for their programs: [Init] opens a
// deployment, [ResetFence] makes masters grant fencing numbers again, and
// [Inspect] asks them which client holds a resource.
//
//	d, err := admin.Init(ctx, redlock.Config{Nodes: redlock.Nodes(urls...)})
//	found, err := admin.Inspect(ctx, client, "invoice:7")
//
// The commands redlock init, fence reset and status do the same. Errors that
// are not named here are those of package redlock.
package admin
