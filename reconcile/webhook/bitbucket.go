package webhook

import (
	"encoding/json"
	"strings"
)

// bitbucket is Bitbucket Cloud, which names the webhook in a header.
func bitbucket() sender {
	return sender{
		name: "bitbucket", known: "X-Hook-UUID", event: "X-Event-Key", pushes: []string{"repo:push"},
		pulls: []string{"pullrequest:created", "pullrequest:updated", "pullrequest:fulfilled", "pullrequest:rejected"},
		proof: "X-Hub-Signature", proven: signed("sha256="), read: readBitbucketEvent,
	}
}

// bitbucketServer is Bitbucket Data Center.
func bitbucketServer() sender {
	return sender{
		name: "bitbucketserver", event: "X-Event-Key", pushes: []string{"repo:refs_changed"}, pings: []string{"diagnostics:ping"},
		pulls: []string{"pr:opened", "pr:from_ref_updated", "pr:modified", "pr:merged", "pr:declined", "pr:deleted"},
		proof: "X-Hub-Signature", proven: signed("sha256="), read: readBitbucketEvent,
	}
}

// bitbucketEvent is what we read of an event: a push on Cloud, one on Data Center, and a pull
// request, of which Data Center names the repository elsewhere.
type bitbucketEvent struct {
	Repository bitbucketRepository `json:"repository"`
	Push       struct {
		Changes []struct{ New, Old *bitbucketRef } `json:"changes"`
	} `json:"push"`
	Changes []struct {
		Ref struct {
			ID string `json:"id"`
		} `json:"ref"`
	} `json:"changes"`
	PullRequest struct {
		To struct {
			Repository bitbucketRepository `json:"repository"`
		} `json:"toRef"`
	} `json:"pullRequest"`
}

// bitbucketRef is a branch, a tag or an annotated_tag on Cloud.
type bitbucketRef struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

func (r bitbucketRef) full() string {
	if strings.HasSuffix(r.Type, "tag") {
		return tags + r.Name
	}
	return branches + r.Name
}

type bitbucketRepository struct {
	Slug    string `json:"slug"`
	Project struct {
		Key string `json:"key"`
	} `json:"project"`
	Links map[string]links `json:"links"`
}

// links are one on Cloud, and a list on Data Center.
type links []struct {
	Href string `json:"href"`
}

// UnmarshalJSON reads either.
func (l *links) UnmarshalJSON(data []byte) error {
	*l = make(links, 1)
	if json.Unmarshal(data, &(*l)[0]) == nil {
		return nil
	}
	type list links
	return json.Unmarshal(data, (*list)(l))
}

func readBitbucketEvent(body []byte) (push, error) {
	var told bitbucketEvent
	if err := json.Unmarshal(body, &told); err != nil {
		return push{}, unreadable(err)
	}
	p := push{}
	for _, change := range told.Push.Changes {
		switch {
		case change.New != nil:
			p.refs = append(p.refs, change.New.full())
		case change.Old != nil: // it was deleted
			p.refs = append(p.refs, change.Old.full())
		}
	}
	for _, change := range told.Changes {
		p.refs = append(p.refs, change.Ref.ID)
	}
	for _, of := range []bitbucketRepository{told.Repository, told.PullRequest.To.Repository} {
		for _, kind := range []string{"html", "clone", "self"} {
			for _, link := range of.Links[kind] {
				p.add(strings.TrimSuffix(link.Href, "/browse"))
			}
		}
		if len(p.repositories) == 0 && of.Slug != "" && of.Project.Key != "" {
			// Versions of Data Center that name no URL name no host either.
			p.anywhere = append(p.anywhere, strings.ToLower("/"+of.Project.Key+"/"+of.Slug), strings.ToLower("/projects/"+of.Project.Key+"/repos/"+of.Slug))
		}
	}
	return p.checked()
}
