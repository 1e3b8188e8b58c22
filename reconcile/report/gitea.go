package report

// gitea posts on Gitea and Forgejo, which may be served below a folder.
// https://docs.gitea.com/api, https://codeberg.org/api/swagger, POST /repos/{owner}/{repo}/statuses/{sha}
func gitea() adapter {
	return adapter{
		locate:      lastTwo,
		credentials: tokenIn("Authorization", "token "),
		review:      giteaReview(),
		propose:     giteaProposing(),
		page:        folderPage("src", "commit"),
		status: func(r repository, s Status) request {
			return request{to: join(r.root(), "api", "v1", "repos", r.owner, r.name, "statuses", s.Commit), body: bodyOf(s)}
		},
	}
}
