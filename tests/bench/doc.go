// Package bench measures what a commit costs the daemon, beside what the same
// commit costs without one.
//
// It starts a control plane without nodes, plays Karpenter (a Deployment that is
// rolled out, and every definition Ready at once), serves a repository with
// `git http-backend`, and runs the daemon with the rights of manifests/. Then it
// pushes commits, tells the daemon the moment a push returns, and reads from the
// API server's own audit when the last object was written, and all that was
// asked of it. The clock starts when the branch moves on the server.
//
// Beside the rows stand, measured in the same run, a raw `git fetch` of that very
// push, a raw server-side apply of the same objects over eight connections,
// krusty's build of the same files, and, where they are asked for, other tools
// that follow the same pushes in the same cluster: only the ratio means anything
// on another machine.
//
// Plans and what-ifs of a large fleet take no cluster: the tests of reconcile/plan and
// reconcile/simulate make one, and are run in processes of their own, so that the peak
// of memory is theirs; a what-if is the built program off a file.
//
// Counts are exact and an error where they are wrong. Times never are.
package bench
