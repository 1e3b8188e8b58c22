package report_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestAPullRequestByAReaderIsAFork: on Gitea and Forgejo, anyone with read access can push to refs/for/main. The
// resulting pull request names the repository itself, and an empty label.
func TestAPullRequestByAReaderIsAFork(t *testing.T) {
	eachForge(t, func(t *testing.T, d dialect, f forge) {
		if !strings.HasPrefix(f.list, "git.example.com:3000/api/v1/") {
			t.Skip("no such pull requests")
		}
		pushed := strings.Replace(f.pull(9, "main", own), `"label": "a:b", "ref": "b"`, `"label": "", "ref": "refs/pull/9/head"`, 1)
		hosts(t, func(w http.ResponseWriter, r *http.Request) {
			f.page.serve(w, r, []string{pushed, f.pull(8, "main", own)})
		})
		got, _, err := d.reviewer(t, newHosts()).PullRequests(t.Context(), "main")
		if err != nil || len(got) != 2 || !got[0].Fork || got[1].Fork || got[0].Head != headOf(9) || got[0].Ref != "refs/pull/9/head" {
			t.Errorf("listed %+v, error %v", got, err)
		}
	})
}
