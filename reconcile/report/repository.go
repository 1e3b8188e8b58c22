package report

import (
	"net/url"
	"strings"
)

// repository is where a repository stands on a host.
type repository struct {
	scheme, host string
	// segments of the path: groups or owner, then the name, without .git. A
	// host that is served below a folder has that first.
	segments []string
}

// parse reads the URL of a repository. User and password in it are dropped.
func parse(raw string) (repository, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return repository{}, &RepositoryError{URL: "(not a URL)", Reason: "cannot be read"}
	}
	u.User = nil
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return repository{}, &RepositoryError{URL: u.String(), Reason: "is not one of http or https"}
	}
	path := strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")
	segments := strings.Split(path, "/")
	for _, s := range segments {
		if s == "" || s == "." || s == ".." {
			return repository{}, &RepositoryError{URL: u.String(), Reason: "has no owner and repository in its path"}
		}
	}
	if len(segments) < 2 {
		return repository{}, &RepositoryError{URL: u.String(), Reason: "has no owner and repository in its path"}
	}
	return repository{scheme: u.Scheme, host: u.Host, segments: segments}, nil
}

// String is the path, as people write it.
func (r repository) String() string { return strings.Join(r.segments, "/") }

// owned splits the path into the folder that the host is served below, the
// owner and the name, escaped.
func (r repository) owned() (below, owner, name string) {
	escaped := make([]string, len(r.segments))
	for i, s := range r.segments {
		escaped[i] = url.PathEscape(s)
	}
	n := len(escaped)
	for _, s := range escaped[:n-2] {
		below += "/" + s
	}
	return below, escaped[n-2], escaped[n-1]
}
