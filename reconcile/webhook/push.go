package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// push is what a host tells: a reference of a repository has moved.
type push struct {
	// repositories are the names that the host gives the one repository: it may
	// be reached over ssh by another host name than over https.
	repositories []repository
	// ref is its full name, such as refs/heads/main.
	ref string
}

// payload is what we read of a push: GitHub, Gitea and Forgejo describe the
// repository in one field, GitLab in another.
type payload struct {
	Ref        string `json:"ref"`
	Repository places `json:"repository"`
	Project    places `json:"project"`
}

// places are the URLs of a repository.
type places struct {
	CloneURL   string `json:"clone_url"`
	SSHURL     string `json:"ssh_url"`
	HTMLURL    string `json:"html_url"`
	GitHTTPURL string `json:"git_http_url"`
	GitSSHURL  string `json:"git_ssh_url"`
	WebURL     string `json:"web_url"`
}

func (p places) all() []string {
	return []string{p.CloneURL, p.SSHURL, p.HTMLURL, p.GitHTTPURL, p.GitSSHURL, p.WebURL}
}

// parsePush reads a push event.
func parsePush(body []byte) (push, error) {
	p, err := parseEvent(body)
	if err == nil && p.ref == "" {
		return push{}, errors.New("read the push: it names no reference")
	}
	return p, err
}

// parseEvent reads a push event, or one of a pull request: that has no reference.
func parseEvent(body []byte) (push, error) {
	var told payload
	if err := json.Unmarshal(body, &told); err != nil {
		return push{}, fmt.Errorf("read the event as JSON: %w", err)
	}
	p := push{ref: told.Ref}
	for _, address := range append(told.Repository.all(), told.Project.all()...) {
		if r, ok := repositoryOf(address); ok && !slices.Contains(p.repositories, r) {
			p.repositories = append(p.repositories, r)
		}
	}
	if len(p.repositories) == 0 {
		return push{}, errors.New("read the event: it names no URL of a repository")
	}
	return p, nil
}

// changesPulls says whether pull requests of a source may have changed.
func (p push) changesPulls(s *v1alpha1.NodeSync) bool {
	r, ok := repository(""), false
	if s.Spec.Source.Git != nil {
		r, ok = repositoryOf(s.Spec.Source.Git.URL)
	}
	return slices.ContainsFunc(s.Spec.Report, func(to v1alpha1.Report) bool {
		own, named := repositoryOf(to.URL)
		return to.PullRequests != nil && (named && slices.Contains(p.repositories, own) || ok && slices.Contains(p.repositories, r))
	})
}

// concerns says whether a source can have changed by the push.
func (p push) concerns(git *v1alpha1.GitSource) bool {
	if git == nil {
		return false
	}
	r, ok := repositoryOf(git.URL)
	return ok && slices.Contains(p.repositories, r) && follows(git.Ref, p.ref)
}

const (
	branches = "refs/heads/"
	tags     = "refs/tags/"
)

// follows says whether a push of a reference can move what a GitRef means. The
// fields count in the order in which a fetch reads them.
func follows(ref v1alpha1.GitRef, pushed string) bool {
	switch {
	case ref.Commit != "":
		return false // it never moves
	case ref.Name == "HEAD":
		return strings.HasPrefix(pushed, branches)
	case ref.Name != "":
		return pushed == ref.Name
	case ref.SemVer != "":
		return strings.HasPrefix(pushed, tags)
	case ref.Tag != "":
		return pushed == tags+ref.Tag
	case ref.Branch != "":
		return pushed == branches+ref.Branch
	}
	return pushed == branches+v1alpha1.DefaultBranch
}
