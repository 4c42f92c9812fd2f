// Package admin is for operators, and for their programs: [Init] opens a
// deployment, [ResetFence] makes masters grant fencing numbers again, [Inspect]
// asks them for the holder of a resource, and [List] for all that is locked.
//
//	d, err := admin.Init(ctx, redlock.Config{Nodes: redlock.Nodes(urls...)})
//	found, err := admin.Inspect(ctx, client, "invoice:7")
//	all, err := admin.List(ctx, client, admin.ListOptions{Prefix: "invoice:"})
//
// The commands redlock init, fence reset, status and list do the same. Other
// errors are those of package redlock.
package admin
