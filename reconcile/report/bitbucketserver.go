package report

import "net/url"

// bitbucketServer posts on Bitbucket Data Center (and Server from 7.4 on), which may be
// served below a folder, with an HTTP access token or a user and a password.
// https://developer.atlassian.com/server/bitbucket/how-tos/updating-build-status-for-commits
func bitbucketServer() adapter {
	return adapter{
		locate:      locateOnServer,
		credentials: tokenOrPassword,
		review:      bitbucketServerReview(),
		page: func(r repository, commit, folder string) string {
			page := r.page("projects", r.owner, "repos", r.name, "browse", folder)
			page.RawQuery = url.Values{"at": {commit}}.Encode()
			return page.String()
		},
		status: func(r repository, s Status) request {
			return request{
				to:   bitbucketServerAPI(r, "commits", s.Commit, "builds"),
				body: buildOf(s, longestName, r.page("projects", r.owner, "repos", r.name, "commits", s.Commit).String()),
			}
		},
	}
}

// locateOnServer reads what a repository is cloned from, /scm/KEY/name, and its pages,
// /projects/KEY/repos/name and /users/name/repos/name. The key of a user's project
// is the name after a tilde.
func locateOnServer(_ string, path []string) (place, string) {
	for i := len(path) - 3; i >= 0; i-- {
		rest := path[i+1:]
		switch paged := len(rest) > 2 && rest[1] == "repos"; {
		case path[i] == "scm" && len(rest) == 2:
			return place{below: path[:i], owner: rest[0], name: rest[1]}, ""
		case path[i] == "projects" && paged:
			return place{below: path[:i], owner: rest[0], name: rest[2]}, ""
		case path[i] == "users" && paged:
			return place{below: path[:i], owner: "~" + rest[0], name: rest[2]}, ""
		}
	}
	return place{}, "has no /scm/PROJECT/repository and no /projects/PROJECT/repos/repository in its path"
}
