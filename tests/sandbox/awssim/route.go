package awssim

import (
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// maxBody is larger than any request that these services accept.
const maxBody = 4 << 20

// parse determines the service and action of r, and its caller. The returned request suffices to return an error in the
// caller's protocol.
func (s *Simulator) parse(r *http.Request) (*request, error) {
	req := &request{id: newRequestID(), action: "unknown", http: r, started: s.options.Now()}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return req, wire.Errorf("IncompleteBody", "reading the request: %v", err)
	}
	req.body = body
	sc, err := s.scopeOf(req)
	if err != nil {
		return req, err
	}
	req.principal = principal{AccessKey: sc.accessKey, UserAgent: r.UserAgent()}
	svc, ok := s.services[sc.service]
	if !ok {
		req.service = service{name: sc.service, protocol: wire.JSON}
		return req, wire.Errorf("UnknownService", "the simulator has no service %q", sc.service).WithStatus(http.StatusNotImplemented)
	}
	req.service = svc
	if err := req.parseAction(); err != nil {
		return req, err
	}
	if !svc.global && sc.region != s.options.Region {
		return req, wire.Errorf("SignatureDoesNotMatch", "Credential should be scoped to a valid region, not %q: the simulated one is %q.", sc.region, s.options.Region).WithStatus(http.StatusForbidden)
	}
	return req, nil
}

// scopeOf reads the signature. One action is called without credentials, and is unsigned.
func (s *Simulator) scopeOf(req *request) (scope, error) {
	if req.http.Header.Get("Authorization") == "" {
		if form, err := url.ParseQuery(string(req.body)); err == nil && form.Get("Action") == "AssumeRoleWithWebIdentity" {
			return scope{service: "sts", region: s.options.Region}, nil
		}
	}
	return parseScope(req.http)
}

// parseAction finds the action's name where the service's protocol puts it.
func (r *request) parseAction() error {
	switch r.service.protocol {
	case wire.EC2, wire.Query:
		form, err := url.ParseQuery(string(r.body))
		if err != nil {
			return wire.Errorf("MalformedQueryString", "reading the form: %v", err)
		}
		for name, values := range r.http.URL.Query() {
			form[name] = values
		}
		r.form, r.action = form, form.Get("Action")
	case wire.JSON:
		_, r.action, _ = strings.Cut(r.http.Header.Get("X-Amz-Target"), ".")
	case wire.REST:
		r.action, r.path = match(r.service.routes, r.http)
	}
	return nil
}

// route maps a REST service's method and path to an action. A segment in braces matches anything.
type route struct {
	method, path, action string
}

func match(routes []route, r *http.Request) (string, map[string]string) {
	segments := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
	for _, route := range routes {
		if values, ok := route.match(r.Method, segments); ok {
			return route.action, values
		}
	}
	return r.Method + " " + r.URL.Path, nil
}

func (rt route) match(method string, segments []string) (map[string]string, bool) {
	pattern := strings.Split(strings.Trim(rt.path, "/"), "/")
	if method != rt.method || len(pattern) != len(segments) {
		return nil, false
	}
	values := map[string]string{}
	for i, p := range pattern {
		switch {
		case strings.HasPrefix(p, "{"):
			value, err := url.PathUnescape(segments[i])
			if err != nil {
				return nil, false
			}
			values[strings.Trim(p, "{}")] = value
		case p != segments[i]:
			return nil, false
		}
	}
	return values, true
}
