package report

import (
	"net/url"
	"path"
	"slices"
	"strings"
)

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
