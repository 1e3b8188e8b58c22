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

// Status is a commit status as Gitea returns it.
type Status struct {
	ID          int64     `json:"id"` // increasing
	State       string    `json:"status"`
	Context     string    `json:"context"`
	Description string    `json:"description"`
	TargetURL   string    `json:"target_url"`
	Created     time.Time `json:"created_at"`
}

// Statuses returns all statuses ever set on a commit (a full SHA), the oldest first.
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
			// Gitea sorts by second, and there can be many in one.
			slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.ID, b.ID) })
			return slices.Clip(all), nil
		}
		all = append(all, found...)
	}
}

// On returns those statuses whose context, plumbline/<cluster>/<name>, is followed by a subject, such as "applied"; if
// subject is empty, those without one. Those of other tools are omitted.
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
