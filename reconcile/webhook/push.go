package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// push is what a host tells: references of a repository have moved.
type push struct {
	// repositories are the names that the host gives the one repository: it may
	// be reached over ssh by another host name than over https.
	repositories []repository
	// anywhere are ends of its name, from a host that does not say its own.
	anywhere []string
	// refs are full names, such as refs/heads/main.
	refs []string
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

// readEvent reads an event of GitHub, GitLab, Gitea or Forgejo.
func readEvent(body []byte) (push, error) {
	var told payload
	if err := json.Unmarshal(body, &told); err != nil {
		return push{}, unreadable(err)
	}
	p := push{}
	if told.Ref != "" {
		p.refs = []string{told.Ref}
	}
	for _, address := range append(told.Repository.all(), told.Project.all()...) {
		p.add(address)
	}
	return p.checked()
}

func unreadable(err error) error { return fmt.Errorf("read the event as JSON: %w", err) }

// add notes an URL of the repository, if it is one.
func (p *push) add(address string) {
	if r, ok := repositoryOf(address); ok && !slices.Contains(p.repositories, r) {
		p.repositories = append(p.repositories, r)
	}
}

// checked is an event that names a repository.
func (p push) checked() (push, error) {
	if len(p.repositories) == 0 && len(p.anywhere) == 0 {
		return push{}, errors.New("read the event: it names no URL of a repository")
	}
	return p, nil
}

// readPush reads a push event.
func (s sender) readPush(body []byte) (push, error) {
	p, err := s.read(body)
	if err == nil && !slices.ContainsFunc(p.refs, func(ref string) bool { return ref != "" }) {
		return push{}, errors.New("read the push: it names no reference")
	}
	return p, err
}

// name is the first that the repository has.
func (p push) name() string {
	if len(p.repositories) > 0 {
		return string(p.repositories[0])
	}
	return strings.TrimPrefix(p.anywhere[0], "/")
}

// moved are the references in words.
func (p push) moved() string {
	const most = 3
	if n := len(p.refs); n > most {
		return fmt.Sprintf("%s and %d more", strings.Join(p.refs[:most], ", "), n-most)
	}
	return strings.Join(p.refs, ", ")
}

// names says whether a URL is one of the repository's.
func (p push) names(address string) bool {
	r, ok := repositoryOf(address)
	return ok && (slices.Contains(p.repositories, r) || slices.ContainsFunc(p.anywhere, func(end string) bool { return strings.HasSuffix(string(r), end) }))
}

// changesPulls says whether pull requests of a source may have changed.
func (p push) changesPulls(s *v1alpha1.NodeSync) bool {
	git := s.Spec.Source.Git
	return slices.ContainsFunc(s.Spec.Report, func(to v1alpha1.Report) bool {
		return to.PullRequests != nil && (p.names(to.URL) || git != nil && p.names(git.URL))
	})
}

// concerns says whether a source can have changed by the push.
func (p push) concerns(git *v1alpha1.GitSource) bool {
	return git != nil && p.names(git.URL) && slices.ContainsFunc(p.refs, func(ref string) bool { return follows(git.Ref, ref) })
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
