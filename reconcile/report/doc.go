// Package report posts commit statuses on Git hosts, reads the pull requests there, comments
// on them, and opens one.
//
// In go a Report of a NodeSync, the URL of the repository and the Secret with a
// token; out comes a Poster for that host. Each kind of host is one adapter, in a
// file of its own, and the table of them is in host.go. Each Post is one request
// (as a GitHub App two, where the token ends) and ends in nil or in one of this
// package's errors, which tell a caller whether and when to try again.
//
// It never tries again later, never follows a redirect to another host, and never lets
// the token into an error.
package report
