package report

import "cmp"

// bitbucket posts on Bitbucket Cloud, with an access token of the repository, the
// project or the workspace, or with a user's address and API token.
// https://developer.atlassian.com/cloud/bitbucket/rest/api-group-commit-statuses/
//
// Only the user who wrote a status may replace it, and each access token is a user of its
// own. https://developer.atlassian.com/cloud/bitbucket/bitbucket-api-changes-commit-status/
func bitbucket() adapter {
	return adapter{
		locate: func(host string, path []string) (place, string) {
			at, reason := lastTwo(host, path)
			switch {
			case host != "bitbucket.org" && host != "www.bitbucket.org":
				return place{}, "is not on bitbucket.org (the provider of Bitbucket Data Center is bitbucketserver)"
			case len(at.below) > 0:
				return place{}, noRepository
			}
			return at, reason
		},
		credentials: tokenOrPassword,
		review:      bitbucketReview(),
		page:        folderPage("src"),
		status: func(r repository, s Status) request {
			return request{
				to:   bitbucketAPI(r, "commit", s.Commit, "statuses", "build"),
				body: buildOf(s, longestBitbucketKey, r.page(r.owner, r.name, "commits", s.Commit).String()),
			}
		},
	}
}

// longestBitbucketKey is the longest key that Bitbucket Cloud takes.
// https://jira.atlassian.com/browse/BCLOUD-23984
const longestBitbucketKey = 40

// build is the body that both kinds of Bitbucket take. One of the same key replaces
// the one before.
type build struct {
	Key         string `json:"key"`
	State       string `json:"state"`
	Name        string `json:"name"`
	Description string `json:"description"`
	URL         string `json:"url"`
}

// buildOf is a status as a build. It needs a URL: the commit's page, where the status
// has none.
func buildOf(s Status, longestKey int, commitPage string) build {
	return build{
		Key: shorten(s.Context, longestKey), State: bitbucketState(s.State), Name: shorten(s.Context, longestName),
		Description: Truncate(s.Description), URL: cmp.Or(s.TargetURL, commitPage),
	}
}

// bitbucketState is a state in Bitbucket's words.
func bitbucketState(s State) string {
	switch s {
	case Success:
		return "SUCCESSFUL"
	case Failure:
		return "FAILED"
	case Pending:
	}
	return "INPROGRESS"
}
