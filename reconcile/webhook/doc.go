// Package webhook receives push events from a Git host, so that a push is fetched immediately rather than at the next
// interval.
//
// The input is requests of GitHub, GitLab, Gitea, Forgejo, Bitbucket or Azure DevOps; the output is the list of
// NodeSyncs to enqueue: those that follow the pushed reference of the pushed repository. A request is limited in rate
// and size, and verified to come from a client that has the token, before any of its body is parsed.
//
// A push only makes a fetch due. The NodeSync defines what is fetched, and from where: nothing in a request chooses a
// URL, a commit or a path. Losing a request only delays the fetch until the next interval.
//
// The package never keeps the token for longer than a few seconds, and never logs it, a signature or a body.
package webhook
