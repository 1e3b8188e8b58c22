package githost

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Status is one commit status as Gitea tells it.
type Status struct {
	ID          int64     `json:"id"` // grows with each
	State       string    `json:"status"`
	Context     string    `json:"context"`
	Description string    `json:"description"`
	TargetURL   string    `json:"target_url"`
	Created     time.Time `json:"created_at"`
}

// Statuses are all statuses ever set on a commit (a full SHA), the oldest first.
func (h *Host) Statuses(ctx context.Context, owner, name, sha string) ([]Status, error) {
	r := Repository{Owner: owner, Name: name}
	var all []Status
	for page := 1; ; page++ {
		var found []Status
		path := fmt.Sprintf("%s/commits/%s/statuses?sort=oldest&limit=50&page=%d", r.path(), url.PathEscape(sha), page)
		if err := h.call(ctx, h.Admin, http.MethodGet, path, nil, &found); err != nil {
			return nil, fmt.Errorf("read the statuses of %s in %s/%s: %w", sha, owner, name, err)
		}
		if len(found) == 0 {
			// Gitea sorts by the second, in which there can be many.
			slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.ID, b.ID) })
			return slices.Clip(all), nil
		}
		all = append(all, found...)
	}
}

// On are those of some statuses whose context, plumbline/<cluster>/<name>, has a subject behind it,
// such as "applied"; with an empty one those that have none. Those of other tools are left out.
func On(subject string, statuses []Status) []Status {
	const parts = 4
	var found []Status
	for _, status := range statuses {
		of := ""
		words := strings.SplitN(status.Context, "/", parts)
		if len(words) == parts {
			of = words[parts-1]
		}
		if of == subject && words[0] == "plumbline" {
			found = append(found, status)
		}
	}
	return found
}
