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

// Hosts creates the clients of Git hosts, and caches the tokens of GitHub Apps until shortly before they expire. It is
// safe for concurrent use.
type Hosts struct {
	// Now returns the current time.
	Now func() time.Time

	tokens     tokens
	identities identities
	hashes     hashes
}

// adapter defines the requests for one kind of host. It does no I/O.
type adapter struct {
	// locate finds the repository in the path of its URL, or returns what is wrong with it. A host without locate gets
	// statuses at the URL itself.
	locate func(host string, path []string) (at place, reason string)
	// credentials reads the credentials for the host from a Secret.
	credentials func(reader) (credentials, error)
	// status returns the request that posts a status.
	status func(repository, Status) request
	// page returns the web page of a folder; nil if the host has no pages.
	page func(r repository, commit, folder string) string
	// codeOf returns the HTTP code that other hosts would send for a response. It may be nil.
	codeOf func(answer, Status) int
	// review reads pull requests and comments on them; nil if that is not supported.
	review *reviewing
	// propose opens pull requests; nil if that is not supported.
	propose *proposing
}

// adapters maps the provider in spec.report to the adapter of that kind of host.
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

// Host returns the client for a provider, the kind of the host. repository is the URL of the repository's web page, or
// its HTTP clone URL; for the provider generic, the URL that accepts the statuses. The error is a *RepositoryError or a
// *SecretError.
func (h *Hosts) Host(provider, repository string, secret map[string][]byte) (Poster, error) {
	return h.open(provider, repository, secret, permissions{"statuses": "write"})
}

// permissions are the only permissions that a GitHub App's token gets.
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

// poster is a client for one repository of a host.
type poster struct {
	adapter
	wire
	repository  repository
	credentials credentials
	hosts       *Hosts
	// credentialsHash is a hash of the credentials, for a Reviewer.
	credentialsHash [sha256.Size]byte
}

// Post posts one status.
func (p *poster) Post(ctx context.Context, s Status) error {
	a, err := p.request(ctx, p.status(p.repository, s))
	if err != nil {
		return err
	}
	return p.responseError(a, Task{}, s)
}

// responseError converts a response of this kind of host into an error, or nil.
func (p *poster) responseError(a answer, task Task, s Status) error {
	if p.codeOf != nil {
		a.code = p.codeOf(a, s)
	}
	return responseError(a, p.repository, task, s.Commit)
}

// request makes a request. A cached token that the host has revoked is replaced once.
func (p *poster) request(ctx context.Context, r request) (answer, error) {
	a, err := p.send(ctx, r, p.credentials)
	if err == nil && a.code == http.StatusUnauthorized && p.credentials.renew() {
		a, err = p.send(ctx, r, p.credentials)
	}
	return a, err
}

// httpClient trusts the system's authorities and that of the Secret, and uses the proxy of HTTP_PROXY, HTTPS_PROXY and
// NO_PROXY, like the source. Statuses are infrequent, so it keeps no connection open.
func httpClient(ca []byte) (*http.Client, error) {
	transport, trusted := trust.Transport(ca)
	if !trusted {
		return nil, &SecretError{Key: keyCA, Reason: "holds no certificate in PEM form"}
	}
	transport.DisableKeepAlives = true
	return &http.Client{Transport: transport, CheckRedirect: checkRedirect}, nil
}

// checkRedirect follows a redirect that keeps the method and the host, as GitHub sends for a renamed repository, and no
// other, because the request carries the token.
func checkRedirect(req *http.Request, via []*http.Request) error {
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

// State is the state of a commit status.
type State string

// The states, as in the NodeSync's status. Each host has its own names for them.
const (
	Pending State = "pending"
	Success State = "success"
	Failure State = "failure"
)

// Status is one commit status.
type Status struct {
	// Commit is the full hash of the commit.
	Commit string
	// Context distinguishes the status from others on the same commit.
	Context string
	State   State
	// Description has at most MaxDescription characters; longer ones are truncated.
	Description string
	// TargetURL is the page that the host links to. It may be empty.
	TargetURL string
}

// mention matches what a host may treat as a mention of a user.
var mention = regexp.MustCompile(`(^|[^\w@])@+(\w)`)

// MaxDescription is the longest description that every host accepts, in characters.
const MaxDescription = 140

// Truncate puts a description on one line and shortens it to MaxDescription characters, at the end of a word if
// possible, with an ellipsis. It removes mentions and code marks, which a commit may contain and some hosts render as
// Markdown.
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

// longestName is the longest context that every host except Bitbucket Cloud accepts, in characters.
const longestName = 255

// shorten truncates a context that is too long for a host, and appends ten digits of the SHA-256 of the whole context,
// so that two are never the same.
func shorten(context string, longest int) string {
	if utf8.RuneCountInString(context) <= longest {
		return context
	}
	const digits = 10
	sum := sha256.Sum256([]byte(context))
	cut := strings.TrimRight(string([]rune(context)[:longest-digits-1]), "/.-")
	return cut + "-" + hex.EncodeToString(sum[:])[:digits]
}

// repository is the location of a repository.
type repository struct {
	scheme, host string
	place
	// url is the original URL, without a user.
	url string
}

// place is the path of a repository on its host.
type place struct {
	// below is the path prefix of the host, or what else precedes the owner.
	below []string
	// owner is a user, an organization, a project or nested groups.
	owner, name string
}

// noRepository is the most common problem of a URL.
const noRepository = "has no owner and repository in its path"

// parse parses the URL of a repository. It drops user and password.
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

// lastTwo reads owner and name from the end of a path.
func lastTwo(_ string, path []string) (place, string) {
	n := len(path)
	if n < 2 {
		return place{}, noRepository
	}
	return place{below: path[:n-2], owner: path[n-2], name: path[n-1]}, ""
}

// String returns owner/name; empty for a URL without them.
func (r repository) String() string {
	if r.name == "" {
		return ""
	}
	return r.owner + "/" + r.name
}

// root returns the URL of the host, with its path prefix.
func (r repository) root() string { return join(r.scheme+"://"+r.host, r.below...) }

// join appends segments to a URL, each escaped.
func join(to string, segments ...string) string {
	for _, s := range segments {
		to += "/" + url.PathEscape(s)
	}
	return to
}

// page returns the URL of a page of the host.
func (r repository) page(segments ...string) *url.URL {
	return &url.URL{Scheme: r.scheme, Host: r.host, Path: "/" + path.Join(append(slices.Clone(r.below), segments...)...)}
}

// longestPage is the longest target URL that every host accepts: GitLab's.
const longestPage = 255

// Clean returns the URL of a repository without user and password; empty if it cannot be parsed.
func Clean(repository string) string {
	u, err := url.Parse(repository)
	if err != nil {
		return ""
	}
	u.User = nil
	return u.String()
}

// Page returns the web page of a folder of a repository at a commit; empty if the host has no such page or its URL is
// too long.
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

// folderPage returns the page of a folder for hosts that have it in the path.
func folderPage(at ...string) func(r repository, commit, folder string) string {
	return func(r repository, commit, folder string) string {
		segments := append([]string{r.owner, r.name}, at...)
		return r.page(append(segments, commit, folder)...).String()
	}
}

// Code formats untrusted text as Markdown code, in which it is neither a link nor a mention.
func Code(words string) string {
	if words == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(redact.Visible(strings.Join(strings.Fields(words), " ")), "`", "'") + "`"
}
