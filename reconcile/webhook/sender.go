package webhook

import (
	"cmp"
	"net/http"
	"slices"
)

// sender is a kind of Git host: how it names its events and proves itself.
type sender struct {
	name string
	// known is the header by which a sender is known; the one that names the event where it is empty.
	known string
	// event is the header that names the event, and named reads the name in the body of a sender
	// who has no such header.
	event string
	named func(body []byte) string
	// pushes are the events after which something new can be fetched; pings
	// only try whether another client listens.
	pushes, pings []string
	// pulls are the events of pull requests.
	pulls []string
	// proof is the header that shows that the sender has the token.
	proof  string
	proven func(proof string, body, token []byte) bool
	// read reads an event; one of a pull request names no reference.
	read func(body []byte) (push, error)
}

// senders are all that are understood. Forgejo sends Gitea's headers too, and
// both send GitHub's; both kinds of Bitbucket name the event by one header: the first that fits is the one.
//
//   - https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
//   - https://docs.gitlab.com/user/project/integrations/webhook_events/
//   - https://docs.gitea.com/usage/webhooks
//   - https://forgejo.org/docs/latest/user/webhooks/
//   - https://support.atlassian.com/bitbucket-cloud/docs/event-payloads/
//   - https://confluence.atlassian.com/bitbucketserver/event-payload-938025882.html
//   - https://learn.microsoft.com/azure/devops/service-hooks/services/webhooks
func senders() []sender {
	return []sender{
		{name: "forgejo", event: "X-Forgejo-Event", pushes: []string{"push"}, pulls: githubPulls(), proof: "X-Forgejo-Signature", proven: signed(""), read: readEvent},
		{name: "gitea", event: "X-Gitea-Event", pushes: []string{"push"}, pulls: githubPulls(), proof: "X-Gitea-Signature", proven: signed(""), read: readEvent},
		{name: "gitlab", event: "X-Gitlab-Event", pushes: []string{"Push Hook", "Tag Push Hook"}, pulls: []string{"Merge Request Hook"}, proof: "X-Gitlab-Token", proven: isToken, read: readEvent},
		{name: "github", event: "X-GitHub-Event", pushes: []string{"push"}, pulls: githubPulls(), pings: []string{"ping"}, proof: "X-Hub-Signature-256", proven: signed("sha256="), read: readEvent},
		bitbucket(), bitbucketServer(), azureDevOps(),
	}
}

// githubPulls are those of GitHub; Gitea and Forgejo tell of a new head by an event of its own.
func githubPulls() []string { return []string{"pull_request", "pull_request_sync"} }

// senderOf finds who sent a request; false where it is none that we know.
func senderOf(header http.Header) (sender, bool) {
	all := senders()
	i := slices.IndexFunc(all, func(s sender) bool { return header.Get(cmp.Or(s.known, s.event)) != "" })
	if i < 0 {
		return sender{}, false
	}
	return all[i], true
}

// eventOf is the name of an event.
func (s sender) eventOf(header http.Header, body []byte) string {
	if s.named != nil {
		return s.named(body)
	}
	return header.Get(s.event)
}
