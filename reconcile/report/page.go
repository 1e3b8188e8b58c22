package report

import (
	"net/url"
	"path"
	"strings"
)

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
// empty where the host has no such page, or none whose URL it takes.
func Page(provider, repository, commit, folder string) string {
	r, err := parse(repository)
	if err != nil {
		return ""
	}
	at := map[string]string{"github": "tree", "gitlab": "-/tree", "gitea": "src/commit"}[provider]
	if at == "" {
		return ""
	}
	u := url.URL{Scheme: r.scheme, Host: r.host, Path: "/" + path.Join(r.String(), at, commit, folder)}
	if page := u.String(); len(page) <= longestPage && !strings.Contains(folder, "..") {
		return page
	}
	return ""
}
