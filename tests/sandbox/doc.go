// Package sandbox starts a whole cluster on one machine, in which everything is real except AWS: a Kubernetes control
// plane, Karpenter's charts in a registry and its controller wherever a chart's Deployment wants it, nodes that boot
// when an instance is launched, a Git host, and a simulator that speaks AWS's wire protocols.
//
//	s, err := sandbox.Up(ctx, sandbox.Options{FromSnapshot: true})
//	defer s.Down()
//
// It returns a Sandbox whose fields are its parts and whose Environment is what a program needs to use it: kubectl,
// helm, git, plumbline.
//
// The cluster serves the newest minor version of Kubernetes that the default version of Karpenter supports, or that of
// Options.Kubernetes: programs of a newer version emulate it (--emulated-version). They emulate the three minor versions
// before their own; for older ones, programs of an older version are built on demand.
//
// Each sandbox has its own folder and loopback ports, so several can run in parallel, also in one process. None of its
// programs outlives the process that called Up, even if that is killed. It needs no privileges and leaves behind only
// the built programs and the prepared snapshot in the cache.
package sandbox
