package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// push is an event of a host: references of a repository have moved.
type push struct {
	// repositories are the host's names for the same repository: its ssh host name may differ from that for https.
	repositories []repository
	// anywhere are suffixes of the repository's name, for a host that does not send its own name.
	anywhere []string
	// refs are full names, such as refs/heads/main.
	refs []string
}

// payload contains the fields that are read of a push: GitHub, Gitea and Forgejo describe the repository in one field,
// GitLab in another.
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

// add records a URL of the repository, if it is one.
func (p *push) add(address string) {
	if r, ok := repositoryOf(address); ok && !slices.Contains(p.repositories, r) {
		p.repositories = append(p.repositories, r)
	}
}

// checked returns an error if the event names no repository.
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

// name returns the first name of the repository.
func (p push) name() string {
	if len(p.repositories) > 0 {
		return string(p.repositories[0])
	}
	return strings.TrimPrefix(p.anywhere[0], "/")
}

// moved lists the references for a message.
func (p push) moved() string {
	const most = 3
	return shortlist.Join(p.refs, most, ", ")
}

// names reports whether a URL is one of the repository's.
func (p push) names(address string) bool {
	r, ok := repositoryOf(address)
	return ok && (slices.Contains(p.repositories, r) || slices.ContainsFunc(p.anywhere,
		func(end string) bool { return strings.HasSuffix(string(r), end) }))
}

// changesPulls reports whether pull requests of a source may have changed.
func (p push) changesPulls(s *v1alpha1.NodeSync) bool {
	git := s.Spec.Source.Git
	return slices.ContainsFunc(s.Spec.Report, func(to v1alpha1.Report) bool {
		return to.PullRequests != nil && (p.names(to.URL) || git != nil && p.names(git.URL))
	})
}

// concerns reports whether a source can have changed by the push.
func (p push) concerns(git *v1alpha1.GitSource) bool {
	return git != nil && p.names(git.URL) && slices.ContainsFunc(p.refs, func(ref string) bool { return follows(git.Ref, ref) })
}

const (
	branches = "refs/heads/"
	tags     = "refs/tags/"
)

// follows reports whether a push of a reference can change what a GitRef resolves to. The fields apply in the order in
// which a fetch reads them.
func follows(ref v1alpha1.GitRef, pushed string) bool {
	switch {
	case ref.Commit != "":
		return false // a commit never moves
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

// origins determines where requests come from: the connecting client, or, if that is a trusted proxy, the client that
// it names.
type origins struct{ proxies []net.IPNet }

// of returns the address that a request comes from; the zero address if unknown. Each proxy appends its client to
// X-Forwarded-For, so the list is read from the right while the writer of an entry is trusted: entries written by the
// client itself are further left and are not reached.
// https://developer.mozilla.org/docs/Web/HTTP/Reference/Headers/X-Forwarded-For#selecting_an_ip_address
func (o origins) of(r *http.Request) netip.Addr {
	from, ok := addressOf(r.RemoteAddr)
	if !ok {
		return netip.Addr{}
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		before, ok := addressOf(strings.TrimSpace(hop))
		if !ok || !o.trusts(from) {
			break
		}
		from = before
	}
	return from
}

func (o origins) trusts(address netip.Addr) bool {
	return slices.ContainsFunc(o.proxies, func(n net.IPNet) bool { return n.Contains(address.AsSlice()) })
}

// addressOf parses an address, with a port (some proxies add one) or without.
func addressOf(text string) (netip.Addr, bool) {
	if with, err := netip.ParseAddrPort(text); err == nil {
		return with.Addr().Unmap(), true
	}
	address, err := netip.ParseAddr(text)
	return address.Unmap(), err == nil
}

// repository identifies a repository as host/path: the same for all of its URLs, over https and ssh, with any user and
// any port. It is in lower case, because the supported hosts do not distinguish repositories by case.
//
// Two that differ only in their port count as the same: then one NodeSync too many is enqueued, which costs a fetch.
type repository string

// scpLike is ssh's short form, such as git@github.com:acme/fleet.git.
var scpLike = regexp.MustCompile(`^(?:[^@/:]+@)?([^@/:]+):([^:].*)$`)

// repositoryOf returns the repository at a URL; false if it is not a repository's URL.
func repositoryOf(address string) (repository, bool) {
	host, place := "", ""
	if short := scpLike.FindStringSubmatch(address); short != nil && !strings.Contains(address, "://") {
		host, place = short[1], short[2]
	} else {
		parsed, err := url.Parse(address)
		if err != nil {
			return "", false
		}
		host, place = parsed.Hostname(), parsed.Path
	}
	place = strings.Trim(path.Clean("/"+place), "/")
	place = strings.TrimRight(strings.TrimSuffix(strings.ToLower(place), ".git"), "/")
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "" || place == "" {
		return "", false
	}
	return repository(azureName(host + "/" + place)), true
}

// azureDevOps is Azure DevOps, whose service hooks have no header of their own: they are identified by basic
// authentication with the configured password. The user is ignored.
func azureDevOps() sender {
	return sender{
		name: "azuredevops", known: "Authorization", pushes: []string{"git.push"},
		pulls: []string{"git.pullrequest.created", "git.pullrequest.updated", "git.pullrequest.merged"},
		named: func(body []byte) string {
			var told azureEvent
			if json.Unmarshal(body, &told) != nil {
				return ""
			}
			return told.Type
		},
		proof: "Authorization", proven: isPassword, read: readAzureEvent,
	}
}

// azureEvent contains the fields that are read of an event.
type azureEvent struct {
	Type     string `json:"eventType"`
	Resource struct {
		Updates []struct {
			Name string `json:"name"`
		} `json:"refUpdates"`
		Repository struct {
			Remote string `json:"remoteUrl"`
			SSH    string `json:"sshUrl"`
			Web    string `json:"webUrl"`
		} `json:"repository"`
	} `json:"resource"`
}

func readAzureEvent(body []byte) (push, error) {
	var told azureEvent
	if err := json.Unmarshal(body, &told); err != nil {
		return push{}, unreadable(err)
	}
	p := push{}
	for _, update := range told.Resource.Updates {
		p.refs = append(p.refs, update.Name)
	}
	for _, address := range []string{told.Resource.Repository.Remote, told.Resource.Repository.SSH, told.Resource.Repository.Web} {
		p.add(address)
	}
	return p.checked()
}

// isPassword reports whether a proof is basic authentication with the token as the password.
// https://datatracker.ietf.org/doc/html/rfc7617
func isPassword(proof string, body, token []byte) bool {
	_, password, is := (&http.Request{Header: http.Header{"Authorization": {proof}}}).BasicAuth()
	return is && isToken(password, body, token)
}

// The URLs of a repository on Azure DevOps Services: over https and ssh, each with the old and the new host name.
// https://learn.microsoft.com/azure/devops/release-notes/2018/sep-10-azure-devops-launch
var (
	azureSSH = regexp.MustCompile(`^(?:ssh\.dev\.azure\.com|vs-ssh\.visualstudio\.com)/v3/([^/]+)/([^/]+)/([^/]+)$`)
	azureOld = regexp.MustCompile(`^([^./]+)\.visualstudio\.com/(?:defaultcollection/)?(?:([^/]+)/)?_git/([^/]+)$`)
	azureNew = regexp.MustCompile(`^dev\.azure\.com/([^/]+)/(?:([^/]+)/)?_git/([^/]+)$`)
)

// azureName returns the canonical name of a repository there, in lower case; other names are unchanged. URLs omit the
// project if the repository has the same name.
func azureName(name string) string {
	for _, form := range []*regexp.Regexp{azureSSH, azureOld, azureNew} {
		found := form.FindStringSubmatch(name)
		if found == nil {
			continue
		}
		organization, project, repository := found[1], found[2], found[3]
		if form == azureSSH { // ssh's short form is still escaped
			project, repository = unescaped(project), unescaped(repository)
		}
		if project == "" {
			project = repository
		}
		return strings.Join([]string{"dev.azure.com", organization, project, "_git", repository}, "/")
	}
	return name
}

func unescaped(segment string) string {
	if plain, err := url.PathUnescape(segment); err == nil {
		return strings.ToLower(plain)
	}
	return segment
}

// bitbucket is Bitbucket Cloud, which identifies the webhook in a header.
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

// bitbucketEvent contains the fields that are read of an event: a push on Cloud, a push on Data Center, and a pull
// request, for which Data Center has the repository in another field.
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

// links are a single one on Cloud, and a list on Data Center.
type links []struct {
	Href string `json:"href"`
}

// UnmarshalJSON accepts both.
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
			// Versions of Data Center that send no URL send no host name either.
			p.anywhere = append(p.anywhere, strings.ToLower("/"+of.Project.Key+"/"+of.Slug),
				strings.ToLower("/projects/"+of.Project.Key+"/repos/"+of.Slug))
		}
	}
	return p.checked()
}
