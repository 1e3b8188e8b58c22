package report

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/plumbline-dev/plumbline/internal/trust"
	"github.com/plumbline-dev/plumbline/redact"
)

// Hosts makes the clients of Git hosts, and keeps the tokens that GitHub gives to
// apps until shortly before they end. It may be used by several goroutines.
type Hosts struct {
	// Now is the time.
	Now func() time.Time

	tokens     tokens
	identities identities
	hashes     hashes
}

// adapter is what one kind of host wants sent, and how. It has no I/O.
type adapter struct {
	// locate finds the repository in the path of its URL, or says what is wrong with
	// it. A host without one gets statuses at the URL itself.
	locate func(host string, path []string) (at place, reason string)
	// credentials reads what opens the host from a Secret.
	credentials func(reader) (credentials, error)
	// status is the request that posts a status.
	status func(repository, Status) request
	// page is where a browser shows a folder; nil if the host has no pages.
	page func(r repository, commit, folder string) string
	// meant returns the code of an answer as other hosts would send it. It may be nil.
	meant func(answer, Status) int
	// review is how pull requests are read and commented on; nil if they are not.
	review *reviewing
	// propose is how pull requests are opened; nil if they are not.
	propose *proposing
}

// adapters are the kinds of hosts, by the provider in spec.report.
func adapters() map[string]adapter {
	return map[string]adapter{
		"azuredevops":     azureDevOps(),
		"bitbucket":       bitbucket(),
		"bitbucketserver": bitbucketServer(),
		"forgejo":         gitea(),
		"generic":         generic(),
		"gitea":           gitea(),
		"github":          github(),
		"gitlab":          gitlab(),
	}
}

// Host returns the client for a provider, the kind of the host. repository is the
// URL of the repository's web page, or the one it is cloned from over http; for the
// provider generic the URL that accepts the statuses. The error is a *RepositoryError or
// a *SecretError.
func (h *Hosts) Host(provider, repository string, secret map[string][]byte) (Poster, error) {
	return h.open(provider, repository, secret, permissions{"statuses": "write"})
}

// permissions are what a GitHub App's token is to have, and nothing else.
type permissions map[string]string

func (h *Hosts) open(provider, repository string, secret map[string][]byte, rights permissions) (*poster, error) {
	kind, known := adapters()[provider]
	if !known {
		return nil, &RepositoryError{URL: Clean(repository), Reason: "is on a host of the kind " + provider + ", which is not known"}
	}
	r, err := parse(repository, kind.locate)
	if err != nil {
		return nil, err
	}
	client, err := httpClient(secret[keyCA])
	if err != nil {
		return nil, err
	}
	w := wire{client: client}
	c, err := kind.credentials(reader{secret: secret, hosts: h, wire: w, repository: r, rights: rights})
	if err != nil {
		return nil, err
	}
	return &poster{adapter: kind, wire: w, repository: r, credentials: c, hosts: h}, nil
}

// poster posts on one repository of a host.
type poster struct {
	adapter
	wire
	repository  repository
	credentials credentials
	hosts       *Hosts
	// opens is a sum of what opens the host, for a Reviewer.
	opens [sha256.Size]byte
}

// Post posts one status.
func (p *poster) Post(ctx context.Context, s Status) error {
	a, err := p.ask(ctx, p.status(p.repository, s))
	if err != nil {
		return err
	}
	return p.judge(a, Task{}, s)
}

// judge turns an answer into an error, or nil, as this kind of host means it.
func (p *poster) judge(a answer, task Task, s Status) error {
	if p.meant != nil {
		a.code = p.meant(a, s)
	}
	return judge(a, p.repository, task, s.Commit)
}

// ask makes a request. A token that was kept and that the host has taken back is replaced once.
func (p *poster) ask(ctx context.Context, r request) (answer, error) {
	a, err := p.send(ctx, r, p.credentials)
	if err == nil && a.code == http.StatusUnauthorized && p.credentials.renew() {
		a, err = p.send(ctx, r, p.credentials)
	}
	return a, err
}

// httpClient trusts the system's authorities and that of the secret, and goes through the
// proxy of HTTP_PROXY, HTTPS_PROXY and NO_PROXY, as the source does. A status is one
// request now and then, so no connection is kept.
func httpClient(ca []byte) (*http.Client, error) {
	transport, trusted := trust.Transport(ca)
	if !trusted {
		return nil, &SecretError{Key: keyCA, Reason: "holds no certificate in PEM form"}
	}
	transport.DisableKeepAlives = true
	return &http.Client{Transport: transport, CheckRedirect: stayHome}, nil
}

// stayHome follows a redirect that keeps the method and the host, as GitHub
// sends for a repository that was renamed, and no other: it carries the token.
func stayHome(req *http.Request, via []*http.Request) error {
	const most = 3
	first := via[0].URL
	if req.Method != via[0].Method || req.URL.Host != first.Host || req.URL.Scheme != first.Scheme || len(via) > most {
		return http.ErrUseLastResponse
	}
	return nil
}

// Poster posts a commit status.
type Poster interface {
	Post(ctx context.Context, s Status) error
}

// State of a commit status.
type State string

// The states, as the NodeSync's status has them. Each host has its own words.
const (
	Pending State = "pending"
	Success State = "success"
	Failure State = "failure"
)

// Status is one commit status.
type Status struct {
	// Commit is the full hash of the commit.
	Commit string
	// Context names the status among others on the same commit.
	Context string
	State   State
	// Description of at most MaxDescription characters; longer ones are
	// truncated.
	Description string
	// TargetURL is where the host links to. It may be empty.
	TargetURL string
}

// mention is what a host may take for the name of a user.
var mention = regexp.MustCompile(`(^|[^\w@])@+(\w)`)

// MaxDescription is the longest description that every host takes, in characters.
const MaxDescription = 140

// Truncate puts a description on one line and shortens it to MaxDescription
// characters, at the end of a word where there is one, with an ellipsis. What a commit has in it mentions nobody,
// and is no code, on a host that reads Markdown in it.
func Truncate(description string) string {
	words := strings.Fields(mention.ReplaceAllString(strings.ReplaceAll(description, "`", "'"), "$1$2"))
	line := strings.Join(words, " ")
	if utf8.RuneCountInString(line) <= MaxDescription {
		return line
	}
	short := ""
	for _, word := range words {
		longer := strings.TrimPrefix(short+" "+word, " ")
		if utf8.RuneCountInString(longer) >= MaxDescription {
			break
		}
		short = longer
	}
	if utf8.RuneCountInString(short) < MaxDescription/2 {
		short = string([]rune(line)[:MaxDescription-1]) // one very long word
	}
	return strings.TrimRight(short, " …") + "…"
}

// longestName is the longest context that every host but Bitbucket Cloud takes, in
// characters.
const longestName = 255

// shorten is a context as a host takes it: the beginning of one that is too long, and ten
// digits of the SHA-256 of all of it, so that two are never the same.
func shorten(context string, longest int) string {
	if utf8.RuneCountInString(context) <= longest {
		return context
	}
	const digits = 10
	sum := sha256.Sum256([]byte(context))
	cut := strings.TrimRight(string([]rune(context)[:longest-digits-1]), "/.-")
	return cut + "-" + hex.EncodeToString(sum[:])[:digits]
}

// repository is where a repository stands on a host.
type repository struct {
	scheme, host string
	place
	// url is what it was read from, without a user.
	url string
}

// place is a repository on its host, as people write it.
type place struct {
	// below is the folder that the host is served below, or what else comes before the
	// owner.
	below []string
	// owner is a user, an organization, a project or groups within groups.
	owner, name string
}

// noRepository is what is wrong with most URLs that are.
const noRepository = "has no owner and repository in its path"

// parse reads the URL of a repository. User and password in it are dropped.
func parse(raw string, locate func(host string, path []string) (place, string)) (repository, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return repository{}, &RepositoryError{URL: "(not a URL)", Reason: "cannot be read"}
	}
	u.User = nil
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return repository{}, &RepositoryError{URL: u.String(), Reason: "is not one of http or https"}
	}
	r := repository{scheme: u.Scheme, host: u.Host, url: u.String()}
	if locate == nil {
		return r, nil
	}
	segments := strings.Split(strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git"), "/")
	reason := noRepository
	if !slices.ContainsFunc(segments, func(s string) bool { return s == "" || s == "." || s == ".." }) {
		r.place, reason = locate(strings.ToLower(u.Host), segments)
	}
	if reason != "" {
		return repository{}, &RepositoryError{URL: u.String(), Reason: reason}
	}
	return r, nil
}

// lastTwo are an owner and a name at the end of a path.
func lastTwo(_ string, path []string) (place, string) {
	n := len(path)
	if n < 2 {
		return place{}, noRepository
	}
	return place{below: path[:n-2], owner: path[n-2], name: path[n-1]}, ""
}

// String is the owner and the name; empty for a URL without them.
func (r repository) String() string {
	if r.name == "" {
		return ""
	}
	return r.owner + "/" + r.name
}

// root is the URL of the host, with the folder that it is served below.
func (r repository) root() string { return join(r.scheme+"://"+r.host, r.below...) }

// join adds segments to a URL, each escaped.
func join(to string, segments ...string) string {
	for _, s := range segments {
		to += "/" + url.PathEscape(s)
	}
	return to
}

// page is the URL of a page of the host.
func (r repository) page(segments ...string) *url.URL {
	return &url.URL{Scheme: r.scheme, Host: r.host, Path: "/" + path.Join(append(slices.Clone(r.below), segments...)...)}
}

// longestPage is the longest target URL that every host takes: GitLab's.
const longestPage = 255

// Clean is the URL of a repository without the user and the password that it may
// hold. One that cannot be read is empty.
func Clean(repository string) string {
	u, err := url.Parse(repository)
	if err != nil {
		return ""
	}
	u.User = nil
	return u.String()
}

// Page is where a browser shows a folder of a repository as a commit has it;
// empty if the host has no such page, or none whose URL it takes.
func Page(provider, repository, commit, folder string) string {
	kind := adapters()[provider]
	if kind.page == nil || strings.Contains(folder, "..") {
		return ""
	}
	r, err := parse(repository, kind.locate)
	if err != nil {
		return ""
	}
	if page := kind.page(r, commit, folder); len(page) <= longestPage {
		return page
	}
	return ""
}

// folderPage is the page of a folder where it stands in the path.
func folderPage(at ...string) func(r repository, commit, folder string) string {
	return func(r repository, commit, folder string) string {
		segments := append([]string{r.owner, r.name}, at...)
		return r.page(append(segments, commit, folder)...).String()
	}
}

// Code is text of others in Markdown, where it is neither a link nor a mention.
func Code(words string) string {
	if words == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(redact.Visible(strings.Join(strings.Fields(words), " ")), "`", "'") + "`"
}
