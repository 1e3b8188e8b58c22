package charts

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// provide packages the requested release, so that unused ones cost nothing. A request that lists versions, or has a
// digest, packages them all.
func (r *Registry) provide(req *http.Request) error {
	rest, _ := strings.CutPrefix(req.URL.Path, "/v2/"+namespace+"/")
	_, rest, _ = strings.Cut(rest, "/") // the chart's name
	kind, reference, _ := strings.Cut(rest, "/")

	switch {
	case kind == "manifests" && slices.Contains(binaries.KarpenterReleases(), reference):
		return r.Add(req.Context(), reference)
	case kind == "tags", kind == "manifests" && strings.Contains(reference, ":") && !r.holds(req):
		return r.addAll(req.Context())
	default:
		return nil
	}
}

func (r *Registry) addAll(ctx context.Context) error {
	for _, version := range binaries.KarpenterReleases() {
		if err := r.Add(ctx, version); err != nil {
			return err
		}
	}

	return nil
}

// holds reports whether the store can respond to a request.
func (r *Registry) holds(req *http.Request) bool {
	answer := httptest.NewRecorder()
	r.store.ServeHTTP(answer, req.Clone(req.Context()))

	return answer.Code == http.StatusOK
}
