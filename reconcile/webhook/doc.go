// Package webhook receives what a Git host tells of a push, so that it is
// fetched at once and not at the next interval.
//
// In go requests of GitHub, GitLab, Gitea, Forgejo, Bitbucket or Azure DevOps; out
// comes the list of NodeSyncs to wake: those that follow the pushed reference of the pushed
// repository. A request is limited in rate and size, and shown to come from
// another client who has the token, before a byte of its body is parsed.
//
// A push only makes a fetch due. What is fetched is what the NodeSync says, from
// where it says: nothing in a request chooses a URL, a commit or a path. A
// request that is lost costs the rest of an interval and nothing else.
//
// It never keeps the token for longer than a few seconds, and never lets it, a
// signature or a body into a log.
package webhook
