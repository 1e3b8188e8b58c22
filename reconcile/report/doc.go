// Package report posts commit statuses on Git hosts, reads the pull requests there, comments
// on them, and opens one.
//
// In goes an Update, the verdict of a reconcile on a commit; out go Posts on the hosts, at some later time. In
// between it stands in a Ledger, one for each NodeSync, in a ConfigMap that the NodeSync owns: a daemon that dies
// loses nothing of it and repeats nothing. A Ledger has a Lane for each host. Lanes do not wait for each other. In a
// Lane there is at most one Entry for a commit: what a newer word has overtaken is never posted. The Ledger's own
// rules are pure. The Queue reads and writes it, the Deliverer posts, and what an error of a host means is in one
// table (queue_failure.go). Neither speaks to people: a Lane's trouble is reported by the NodeSync's next reconcile.
//
// Hosts makes a Poster from the URL of the repository and the Secret with a token. Each kind of host is one adapter,
// in a file of its own, and the table of them is in host.go. Each Post is one request (as a GitHub App two, where the
// token ends) and ends in nil or in one of this package's errors, which tell whether and when to try again.
// A Poster never tries again later, never follows a redirect to another host, and never lets the token into an error.
package report
