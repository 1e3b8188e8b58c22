// Package bench measures what a commit costs the daemon, beside what the same
// commit costs without one.
//
// It starts a control plane without nodes, plays Karpenter (a Deployment that is
// rolled out, and every definition Ready at once), serves a repository with
// `git http-backend`, and runs the daemon with the rights of manifests/. Then it
// pushes commits and reads from the API server's own audit when the last object
// was written, and how many writes there were. Beside each row stands a raw `git
// fetch` of that very push and a raw server-side apply of the same objects over
// eight connections, measured in the same run: only the ratio means anything on
// another machine.
//
// Counts are exact and an error where they are wrong. Times never are.
package bench
