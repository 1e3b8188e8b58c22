// Package report posts commit statuses to Git hosts, reads pull requests there, comments on them, and opens one.
//
// The input is an Update, the verdict of a reconcile on a commit; the output is Posts to the hosts, some time later. In
// between it is stored in a Ledger, one for each NodeSync, in a ConfigMap that the NodeSync owns: a daemon that crashes
// loses nothing and repeats nothing. A Ledger has a Lane for each host. Lanes do not wait for each other. A Lane has at
// most one Entry for a commit: a status superseded by a newer one is never posted. The rules of the Ledger are pure
// functions. The Queue reads and writes it, the Deliverer posts, and one table maps a host's errors to what happens
// next (queue_failure.go). Neither reports problems to users: the NodeSync's next reconcile reports those of a Lane.
//
// Hosts creates a Poster from the URL of the repository and the Secret with a token. Each kind of host has one adapter
// in its own file, listed in host.go. Each Post makes one request (two for a GitHub App whose token expired) and
// returns nil or one of this package's errors, which tell whether and when to retry. A Poster never retries later,
// never follows a redirect to another host, and never puts the token into an error.
package report
