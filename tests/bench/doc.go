// Package bench measures what a commit costs the daemon, compared with the cost of the same commit without one.
//
// It starts a control plane without nodes, simulates Karpenter (a Deployment that is rolled out, and every definition
// Ready immediately), serves a repository with `git http-backend`, and runs the daemon with the permissions of
// manifests/. Then it pushes commits, notifies the daemon when a push returns, and reads from the API server's own
// audit log when the last object was written, and all requests. The clock starts when the branch moves on the server.
//
// The rows are compared with measurements in the same run: a raw `git fetch` of the same push, a raw server-side apply
// of the same objects over eight connections, krusty's build of the same files, and, if requested, other tools that
// follow the same pushes in the same cluster. Only the ratio means anything on another machine.
//
// Plans and what-ifs of a large fleet need no cluster: the tests of reconcile/plan and reconcile/simulate generate one,
// and run in separate processes, so that the peak memory is theirs; a what-if is the built program with a file.
//
// The pace of a rollout is measured in a sandbox in which Karpenter's own controller replaces the nodes. How long the
// whole rollout takes is extrapolated from its second fifth, which the compared estimates have not seen.
//
// Counts are exact, and wrong ones are an error. Times never are.
package bench
