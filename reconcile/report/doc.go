// Package report posts commit statuses on Git hosts.
//
// In go a Report of a NodeSync, the URL of the repository and the Secret with a
// token; out comes a Poster for that host: Gitea, GitHub or GitLab. Each Post is
// one request and ends in nil or in one of this package's errors, which tell a
// caller whether and when to try again.
//
// It never retries, never follows a redirect to another host, and never lets
// the token into an error.
package report
