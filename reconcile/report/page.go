package report

import (
	"net/url"
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
