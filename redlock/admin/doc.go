// Package admin is for operators, and for their programs: [Init] opens a
// deployment, [ResetFence] makes masters grant fencing numbers again, and
// [Inspect] asks them for the holder of a resource.
//
//	d, err := admin.Init(ctx, redlock.Config{Nodes: redlock.Nodes(urls...)})
//	found, err := admin.Inspect(ctx, client, "invoice:7")
//
// The commands redlock init, fence reset and status do the same. Other errors
// are those of package redlock.
package admin
