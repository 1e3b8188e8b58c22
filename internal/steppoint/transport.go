//go:build steppoints

package steppoint

import (
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// transport adds a point before a change is sent and after its response.
func (p Points) transport(next http.RoundTripper) http.RoundTripper {
	prefixes := sets.NewString("api", "apis")
	return &roundTripper{
		points: p, next: next, api: request.RequestInfoFactory{APIPrefixes: prefixes, GrouplessAPIPrefixes: sets.NewString("api")},
	}
}

type roundTripper struct {
	points Points
	next   http.RoundTripper
	api    request.RequestInfoFactory
}

// RoundTrip implements http.RoundTripper.
func (r *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	name := r.change(req)
	if name == "" {
		return r.next.RoundTrip(req)
	}
	r.points.reach("before " + name)
	res, err := r.next.RoundTrip(req)
	r.points.reach("after " + name)
	return res, err
}

// beside are written at any time, independently of reconciles.
var beside = []string{"leases", "events"}

// change returns "patch nodesyncs/status" for a request that changes something, and "" for any other.
func (r *roundTripper) change(req *http.Request) string {
	if !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, req.Method) ||
		req.URL.Query().Has("dryRun") {
		return ""
	}
	info, err := r.api.NewRequestInfo(req)
	if err != nil || !info.IsResourceRequest || slices.Contains(beside, info.Resource) {
		return ""
	}
	name := info.Verb + " " + info.Resource
	if info.Subresource != "" {
		name += "/" + info.Subresource
	}
	return name
}
