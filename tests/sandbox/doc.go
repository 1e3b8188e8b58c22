// Package sandbox starts a whole cluster on one machine, with everything real
// but AWS: a Kubernetes control plane, Karpenter's charts in a registry and
// its controller wherever a chart's Deployment wants it, nodes that boot when
// an instance is launched, a Git host, and a simulator that speaks AWS's wire
// protocols.
//
//	s, err := sandbox.Up(ctx, sandbox.Options{FromSnapshot: true})
//	defer s.Down()
//
// In goes little; out comes a Sandbox whose fields are its parts and whose
// Environment is what a program needs to use it: kubectl, helm, git, plumbline.
//
// Each sandbox has a folder and loopback ports of its own, so several can run
// side by side, also in one process. None of its programs outlives the process
// that called Up, even if that one is killed. It needs no privileges and
// leaves nothing behind but the built programs and the prepared snapshot in
// the cache.
package sandbox
